#include "bench/config/value.h"

#include <charconv>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/config/toml_file.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

std::string Quote(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

bool IsBareKey(const std::string& key) {
  if (key.empty()) return false;
  for (const char c : key) {
    const bool bare = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-';
    if (!bare) return false;
  }
  return true;
}

// The shortest text that reads back as the same number, with a point so that it stays a real.
std::string RealText(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string TableText(const Value& value) {
  std::string out = "{ ";
  bool first = true;
  for (const Member& member : value.members) {
    if (!first) out += ", ";
    first = false;
    out += (IsBareKey(member.key) ? member.key : Quote(member.key)) + " = " + ToToml(member.value);
  }
  return out + " }";
}

std::string ListText(const Value& value) {
  std::string out = "[";
  for (std::size_t i = 0; i < value.list.size(); ++i) {
    out += (i == 0 ? "" : ", ") + ToToml(value.list[i]);
  }
  return out + "]";
}

// "[1, 2]" and "[[10, 20], [20, 10]]": lists of scalars, which is what a command line needs.
bool ParseList(std::string_view text, std::size_t& at, Value& out);

void SkipBlanks(std::string_view text, std::size_t& at) {
  while (at < text.size() && text[at] == ' ') ++at;
}

bool ParseElement(std::string_view text, std::size_t& at, Value& out) {
  SkipBlanks(text, at);
  if (at < text.size() && text[at] == '[') return ParseList(text, at, out);
  const std::size_t end = text.find_first_of(",]", at);
  if (end == std::string_view::npos) return false;
  std::string_view word = text.substr(at, end - at);
  while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
  if (word.empty()) return false;
  out = ParseScalar(word);
  at = end;
  return true;
}

bool ParseList(std::string_view text, std::size_t& at, Value& out) {
  out = Value::List({});
  ++at;  // the bracket
  SkipBlanks(text, at);
  if (at < text.size() && text[at] == ']') return ++at, true;
  for (;;) {
    Value element;
    if (!ParseElement(text, at, element)) return false;
    out.list.push_back(std::move(element));
    SkipBlanks(text, at);
    if (at >= text.size()) return false;
    if (text[at] == ']') return ++at, true;
    if (text[at] != ',') return false;
    ++at;
  }
}

void ForgetLines(Value& value) {
  value.line = 0;
  for (Value& element : value.list) ForgetLines(element);
  for (Member& member : value.members) ForgetLines(member.value);
}

// What TOML has brackets or quotes for; nullopt: something else, or not written as TOML wants it.
std::optional<Value> ParseInline(std::string_view text) {
  if (text.empty() || std::string_view("\"'[{").find(text.front()) == std::string_view::npos) {
    return std::nullopt;
  }
  if (text.find('\n') != std::string_view::npos) return std::nullopt;
  auto table = ParseToml(absl::StrCat("v = ", std::string(text)), "");
  if (!table.ok() || table->members.size() != 1) return std::nullopt;
  Value value = std::move(table->members.front().value);
  ForgetLines(value);
  return value;
}

}  // namespace

Value Value::Bool(bool v) {
  Value value;
  value.kind = Kind::kBool;
  value.boolean = v;
  return value;
}
Value Value::Int(std::int64_t v) {
  Value value;
  value.kind = Kind::kInt;
  value.integer = v;
  return value;
}
Value Value::Real(double v) {
  Value value;
  value.kind = Kind::kReal;
  value.real = v;
  return value;
}
Value Value::Text(std::string v) {
  Value value;
  value.kind = Kind::kText;
  value.text = std::move(v);
  return value;
}
Value Value::List(std::vector<Value> v) {
  Value value;
  value.kind = Kind::kList;
  value.list = std::move(v);
  return value;
}

Value Value::Table() { return Value(); }

const Value* Value::Find(std::string_view key) const {
  for (const Member& member : members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

void Value::Add(std::string key, Value value) {
  members.push_back({std::move(key), std::move(value)});
}

std::string_view Value::KindName() const {
  switch (kind) {
    case Kind::kBool:
      return "a boolean";
    case Kind::kInt:
      return "an integer";
    case Kind::kReal:
      return "a real number";
    case Kind::kText:
      return "a text";
    case Kind::kList:
      return "a list";
    case Kind::kTable:
      return "a table";
  }
  return "";
}

std::string ToToml(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kBool:
      return value.boolean ? "true" : "false";
    case Value::Kind::kInt:
      return std::to_string(value.integer);
    case Value::Kind::kReal:
      return RealText(value.real);
    case Value::Kind::kText:
      return Quote(value.text);
    case Value::Kind::kList:
      return ListText(value);
    case Value::Kind::kTable:
      return TableText(value);
  }
  return "";
}

Value ParseScalar(std::string_view text) {
  if (text == "true" || text == "false") return Value::Bool(text == "true");
  if (auto value = ParseInline(text)) return *std::move(value);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    return Value::Text(std::string(text.substr(1, text.size() - 2)));
  }
  if (!text.empty() && text.front() == '[') {
    Value list;
    std::size_t at = 0;
    if (ParseList(text, at, list) && at == text.size()) return list;
    return Value::Text(std::string(text));
  }
  std::string digits;
  for (const char c : text) {
    if (c != '_') digits += c;  // 1_000 as in TOML
  }
  std::int64_t integer = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), integer);
  if (!digits.empty() && error == std::errc() && end == digits.data() + digits.size()) {
    return Value::Int(integer);
  }
  double real = 0;
  if (digits.find_first_not_of("0123456789.+-eE") == std::string::npos &&
      absl::SimpleAtod(digits, &real)) {
    return Value::Real(real);
  }
  return Value::Text(std::string(text));
}

}  // namespace pagestorm::bench
