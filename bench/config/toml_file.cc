#include "bench/config/toml_file.h"

#include <toml++/toml.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace pagestorm::bench {
namespace {

// Dates have no use here: they arrive as a text that no knob accepts.
Value Convert(const toml::node& node) {
  Value value;
  if (const auto* boolean = node.as_boolean()) value = Value::Bool(boolean->get());
  if (const auto* integer = node.as_integer()) value = Value::Int(integer->get());
  if (const auto* real = node.as_floating_point()) value = Value::Real(real->get());
  if (const auto* text = node.as_string()) value = Value::Text(text->get());
  if (node.is_date() || node.is_time() || node.is_date_time()) value = Value::Text("a date");
  if (const auto* array = node.as_array()) {
    value = Value::List({});
    for (const toml::node& element : *array) value.list.push_back(Convert(element));
  }
  if (const auto* table = node.as_table()) {
    for (const auto& [key, member] : *table) value.Add(std::string(key.str()), Convert(member));
  }
  value.line = static_cast<int>(node.source().begin.line);
  return value;
}

}  // namespace

absl::StatusOr<Value> ParseToml(std::string_view text, const std::string& name) {
  try {
    return Convert(toml::parse(text, std::string_view(name)));
  } catch (const toml::parse_error& error) {
    std::string what(error.description());
    for (char& c : what) {
      if (c == '\n') c = ' ';
    }
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":", error.source().begin.line, ": no valid TOML: ", what));
  }
}

absl::StatusOr<Value> ReadTomlFile(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return ParseToml(text, path);
}

}  // namespace pagestorm::bench
