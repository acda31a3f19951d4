#include "bench/reproductions/fields.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pagestorm::bench::reproductions {

void Complaint::Say(int line, const std::string& text) {
  if (!status.ok()) return;
  status = absl::InvalidArgumentError(line > 0 ? absl::StrCat(file, ":", line, ": ", text)
                                               : absl::StrCat(file, ": ", text));
}

std::optional<double> AsNumber(const Value& value) {
  if (value.kind == Value::Kind::kInt) return static_cast<double>(value.integer);
  if (value.kind == Value::Kind::kReal) return value.real;
  return std::nullopt;
}

Fields::Fields(const Value& table, std::string section, Complaint& complaint)
    : table_(table), section_(std::move(section)), complaint_(complaint) {}

int Fields::LineOf(const std::string& key) const {
  const Value* value = table_.Find(key);
  return value == nullptr ? table_.line : value->line;
}

void Fields::Refuse(const std::string& key, const std::string& allowed) {
  const Value* value = table_.Find(key);
  const std::string given = value == nullptr ? "" : absl::StrCat(" = ", ToToml(*value));
  complaint_.Say(LineOf(key), absl::StrCat(section_, key, given, ": allowed: ", allowed));
}

const Value* Fields::Member(const std::string& key, bool required, const std::string& allowed) {
  known_.insert(key);
  const Value* value = table_.Find(key);
  if (value == nullptr && required) {
    complaint_.Say(table_.line, absl::StrCat(section_, key, " is missing: ", allowed));
  }
  return value;
}

std::string Fields::Text(const std::string& key, std::optional<std::string> otherwise) {
  const Value* value = Member(key, !otherwise, "a text");
  if (value == nullptr) return otherwise.value_or("");
  if (value->kind == Value::Kind::kText) return value->text;
  Refuse(key, "a text");
  return "";
}

std::int64_t Fields::Int(const std::string& key, std::int64_t low, std::int64_t high,
                         std::optional<std::int64_t> otherwise) {
  const std::string allowed = absl::StrCat("an integer ", low, "..", high);
  const Value* value = Member(key, !otherwise, allowed);
  if (value == nullptr) return otherwise.value_or(low);
  if (value->kind == Value::Kind::kInt && low <= value->integer && value->integer <= high) {
    return value->integer;
  }
  Refuse(key, allowed);
  return low;
}

double Fields::Number(const std::string& key, std::optional<double> otherwise) {
  const Value* value = Member(key, !otherwise, "a number");
  if (value == nullptr) return otherwise.value_or(0);
  if (const auto number = AsNumber(*value)) return *number;
  Refuse(key, "a number");
  return 0;
}

bool Fields::Bool(const std::string& key, bool otherwise) {
  const Value* value = Member(key, false, "");
  if (value == nullptr) return otherwise;
  if (value->kind == Value::Kind::kBool) return value->boolean;
  Refuse(key, "true, false");
  return otherwise;
}

std::vector<std::string> Fields::Texts(const std::string& key) {
  std::vector<std::string> texts;
  const Value* value = Member(key, false, "");
  if (value == nullptr) return texts;
  for (const Value& element : value->list) {
    if (element.kind == Value::Kind::kText) texts.push_back(element.text);
  }
  if (value->kind != Value::Kind::kList || texts.size() != value->list.size()) {
    Refuse(key, "a list of texts");
  }
  return texts;
}

std::vector<std::int64_t> Fields::Ints(const std::string& key) {
  std::vector<std::int64_t> ints;
  const Value* value = Member(key, false, "");
  if (value == nullptr) return ints;
  for (const Value& element : value->list) {
    if (element.kind == Value::Kind::kInt) ints.push_back(element.integer);
  }
  if (value->kind != Value::Kind::kList || ints.size() != value->list.size()) {
    Refuse(key, "a list of integers");
  }
  return ints;
}

std::vector<double> Fields::Numbers(const std::string& key) {
  std::vector<double> numbers;
  const Value* value = Member(key, false, "");
  if (value == nullptr) return numbers;
  for (const Value& element : value->list) {
    if (const auto number = AsNumber(element)) numbers.push_back(*number);
  }
  if (value->kind != Value::Kind::kList || numbers.size() != value->list.size()) {
    Refuse(key, "a list of numbers");
  }
  return numbers;
}

const Value* Fields::Find(const std::string& key, Value::Kind kind) {
  const Value* value = Member(key, false, "");
  if (value == nullptr || value->kind == kind) return value;
  Value sample;
  sample.kind = kind;
  Refuse(key, std::string(sample.KindName()));
  return nullptr;
}

void Fields::Done() {
  for (const auto& member : table_.members) {  // Member is a function of this class
    if (known_.count(member.key) > 0) continue;
    complaint_.Say(member.value.line,
                   absl::StrCat("unknown key ", section_, member.key, " = ", ToToml(member.value),
                                ": known here: ", absl::StrJoin(known_, ", ")));
    return;
  }
}

}  // namespace pagestorm::bench::reproductions
