// Builders of knobs by type of value, for the tables in knobs*.cc.
//
// `field` is a generic callable that returns the member by reference, of a const configuration too:
// [](auto& c) -> auto& { return c.policy.hz; }
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/config/knobs.h"

namespace pagestorm::bench {

inline constexpr std::int64_t kNoBound = INT64_MAX;

std::string RangeText(std::int64_t low, std::int64_t high);

template <class Field>
Knob BoolKnob(std::string name, KnobScope scope, Field field, std::string doc) {
  return {std::move(name),
          scope,
          "true, false",
          std::move(doc),
          [field](const RunConfig& c) { return Value::Bool(field(c)); },
          [field](RunConfig& c, const Value& v) {
            if (v.kind != Value::Kind::kBool) return false;
            field(c) = v.boolean;
            return true;
          }};
}

// The member may be any integer type that holds low..high, or a struct with one member n (Ns).
template <class Field>
Knob IntKnob(std::string name, KnobScope scope, std::int64_t low, std::int64_t high, Field field,
             std::string doc) {
  return {std::move(name),
          scope,
          RangeText(low, high),
          std::move(doc),
          [field](const RunConfig& c) { return Value::Int(static_cast<std::int64_t>(field(c))); },
          [field, low, high](RunConfig& c, const Value& v) {
            if (v.kind != Value::Kind::kInt || v.integer < low || v.integer > high) return false;
            auto& member = field(c);
            member = static_cast<std::remove_reference_t<decltype(member)>>(v.integer);
            return true;
          }};
}

template <class Field>
Knob TextKnob(std::string name, KnobScope scope, Field field, std::string allowed,
              std::string doc) {
  return {std::move(name),
          scope,
          std::move(allowed),
          std::move(doc),
          [field](const RunConfig& c) { return Value::Text(field(c)); },
          [field](RunConfig& c, const Value& v) {
            if (v.kind != Value::Kind::kText || v.text.empty()) return false;
            field(c) = v.text;
            return true;
          }};
}

// A number of a small set of names.
template <class Enum>
using Names = std::vector<std::pair<std::string, Enum>>;

template <class Enum, class Field>
Knob EnumKnob(std::string name, KnobScope scope, Names<Enum> names, Field field, std::string doc) {
  std::string allowed;
  for (const auto& [text, value] : names) {
    absl::StrAppend(&allowed, allowed.empty() ? "" : ", ", "\"", text, "\"");
  }
  return {std::move(name),
          scope,
          std::move(allowed),
          std::move(doc),
          [field, names](const RunConfig& c) {
            for (const auto& [text, value] : names) {
              if (value == field(c)) return Value::Text(text);
            }
            return Value::Text("?");
          },
          [field, names](RunConfig& c, const Value& v) {
            for (const auto& [text, value] : names) {
              if (v.kind == Value::Kind::kText && text == v.text) {
                field(c) = value;
                return true;
              }
            }
            return false;
          }};
}

// A list of integers in low..high, at most `most` of them, at least `least`.
template <class Field>
Knob IntListKnob(std::string name, KnobScope scope, std::int64_t low, std::int64_t high,
                 Field field, std::string doc) {
  return {std::move(name),
          scope,
          absl::StrCat("a list of ", RangeText(low, high)),
          std::move(doc),
          [field](const RunConfig& c) {
            std::vector<Value> list;
            for (const std::int64_t n : field(c)) list.push_back(Value::Int(n));
            return Value::List(std::move(list));
          },
          [field, low, high](RunConfig& c, const Value& v) {
            if (v.kind != Value::Kind::kList) return false;
            std::vector<std::int64_t> list;
            for (const Value& element : v.list) {
              if (element.kind != Value::Kind::kInt) return false;
              if (element.integer < low || element.integer > high) return false;
              list.push_back(element.integer);
            }
            field(c) = std::move(list);
            return true;
          }};
}

// The knobs of one scope, in knobs_<scope>.cc.
std::vector<Knob> RunKnobs();
std::vector<Knob> KernelKnobs();
std::vector<Knob> MachineKnobs();
std::vector<Knob> CostKnobs();

}  // namespace pagestorm::bench
