// A configuration value as read from TOML or a command line: plain data, no third-party type.
//
// Tables keep the order of their keys, so that what is written from them is reproducible.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pagestorm::bench {

struct Member;

struct Value {
  enum class Kind : std::uint8_t { kBool, kInt, kReal, kText, kList, kTable };

  Kind kind = Kind::kTable;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string text{};
  std::vector<Value> list{};
  std::vector<Member> members;
  int line = 0;  // where it stands in its file; 0: not from a file

  static Value Bool(bool v);
  static Value Int(std::int64_t v);
  static Value Real(double v);
  static Value Text(std::string v);
  static Value List(std::vector<Value> v);
  static Value Table();

  // The member of a table; nullptr if there is none, or this is no table.
  [[nodiscard]] const Value* Find(std::string_view key) const;
  // Appends a member to a table.
  void Add(std::string key, Value value);
  // "an integer", for messages.
  [[nodiscard]] std::string_view KindName() const;
};

struct Member {
  std::string key;
  Value value;
};

// The value in TOML syntax on one line: 3, "text", [1, 2], { a = 1 }. Reads back as the same value.
[[nodiscard]] std::string ToToml(const Value& value);

// A command line's text as a value: what TOML would read ({ a = 1 } and lists of such, too), lists
// also of bare words ([a, b]), else the text itself (off, 2.6.26).
[[nodiscard]] Value ParseScalar(std::string_view text);

}  // namespace pagestorm::bench
