// Reading the members of a TOML table one by one, with one line about the first thing that is
// wrong: file, line, key, value, what is allowed.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/config/value.h"

namespace pagestorm::bench::reproductions {

// The first complaint about a file.
struct Complaint {
  std::string file;
  absl::Status status;
  [[nodiscard]] bool ok() const { return status.ok(); }
  void Say(int line, const std::string& text);  // only the first one is kept
};

// Members that are read are known; Done() complains about others. After a complaint all reading
// returns defaults, so callers need not look in between.
class Fields {
 public:
  // section: put before keys in messages, "[[claim]] " or empty. Both must outlive this.
  Fields(const Value& table, std::string section, Complaint& complaint);

  // A default makes a member optional.
  std::string Text(const std::string& key, std::optional<std::string> otherwise = std::nullopt);
  std::int64_t Int(const std::string& key, std::int64_t low, std::int64_t high,
                   std::optional<std::int64_t> otherwise = std::nullopt);
  // An integer is a number, too.
  double Number(const std::string& key, std::optional<double> otherwise = std::nullopt);
  bool Bool(const std::string& key, bool otherwise);
  std::vector<std::string> Texts(const std::string& key);       // empty if absent
  std::vector<std::int64_t> Ints(const std::string& key);       // empty if absent
  std::vector<double> Numbers(const std::string& key);          // empty if absent
  const Value* Find(const std::string& key, Value::Kind kind);  // nullptr if absent

  [[nodiscard]] bool Has(const std::string& key) const { return table_.Find(key) != nullptr; }
  [[nodiscard]] int LineOf(const std::string& key) const;
  [[nodiscard]] int line() const { return table_.line; }
  // "<file>:<line>: <section><key> = <value>: allowed: <allowed>".
  void Refuse(const std::string& key, const std::string& allowed);
  void Done();

 private:
  const Value* Member(const std::string& key, bool required, const std::string& allowed);

  const Value& table_;
  const std::string section_;
  Complaint& complaint_;
  std::set<std::string> known_;
};

[[nodiscard]] std::optional<double> AsNumber(const Value& value);

}  // namespace pagestorm::bench::reproductions
