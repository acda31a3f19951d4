#include "bench/sweep/value_list.h"

#include <algorithm>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace pagestorm::bench {
namespace {

constexpr std::uint64_t kSeedsMax = 1'000'000;

// Walks over a text and knows whether it is inside quotes or brackets.
class Nesting {
 public:
  // True if `c` stands outside of everything.
  bool Outside(char c) {
    if (quoted_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        quoted_ = false;
      }
      return false;
    }
    if (c == '"') quoted_ = true;
    if (c == '[' || c == '{') ++depth_;
    if (c == ']' || c == '}') --depth_;
    return depth_ == 0 && !quoted_;
  }
  [[nodiscard]] bool closed() const { return depth_ == 0 && !quoted_; }

 private:
  bool quoted_ = false;
  bool escaped_ = false;
  int depth_ = 0;
};

absl::Status BadSeeds(const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrCat("--seeds ", text,
                   ": allowed: a number of seeds, a range 1-10, or a list 1,5,9-12 of seeds "
                   "0..9223372036854775807, each once, at most ",
                   kSeedsMax));
}

bool ParseSeed(const std::string& text, std::uint64_t& seed) {
  std::int64_t number = 0;
  if (text.empty() || !absl::ascii_isdigit(static_cast<unsigned char>(text[0]))) return false;
  if (!absl::SimpleAtoi(text, &number)) return false;
  seed = static_cast<std::uint64_t>(number);
  return true;
}

// "7" or "3-7" appended to `seeds`; false: neither, or too many.
bool AppendSeeds(const std::string& text, std::vector<std::uint64_t>& seeds) {
  const std::size_t dash = text.find('-');
  std::uint64_t low = 0;
  if (!ParseSeed(text.substr(0, dash), low)) return false;
  std::uint64_t high = low;
  if (dash != std::string::npos && !ParseSeed(text.substr(dash + 1), high)) return false;
  if (high < low || high - low >= kSeedsMax || seeds.size() + (high - low) >= kSeedsMax) {
    return false;
  }
  for (std::uint64_t seed = low; seed <= high; ++seed) seeds.push_back(seed);
  return true;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SplitValues(const std::string& text,
                                                     const std::string& what) {
  std::vector<std::string> values;
  Nesting nesting;
  std::string value;
  for (const char c : text) {
    if (nesting.Outside(c) && c == ',') {
      values.push_back(std::move(value));
      value.clear();
    } else {
      value += c;
    }
  }
  values.push_back(std::move(value));
  if (!nesting.closed()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " = ", text, ": a quote or a bracket is not closed"));
  }
  for (std::string& each : values) {
    each = std::string(absl::StripAsciiWhitespace(each));
    if (each.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(what, " = ", text, ": has an empty value"));
    }
    if (std::count(values.begin(), values.end(), each) > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " = ", text, ": ", each, " is there twice"));
    }
  }
  return values;
}

absl::StatusOr<std::vector<std::uint64_t>> ParseSeeds(const std::string& text,
                                                      std::uint64_t first) {
  std::vector<std::uint64_t> seeds;
  if (text.find_first_of(",-") == std::string::npos) {
    std::uint64_t count = 0;
    if (!ParseSeed(text, count) || count == 0 || count > kSeedsMax) return BadSeeds(text);
    if (first > static_cast<std::uint64_t>(INT64_MAX) - count) return BadSeeds(text);
    for (std::uint64_t i = 0; i < count; ++i) seeds.push_back(first + i);
    return seeds;
  }
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (!AppendSeeds(text.substr(begin, end - begin), seeds)) return BadSeeds(text);
    begin = end + 1;
  }
  if (std::set<std::uint64_t>(seeds.begin(), seeds.end()).size() != seeds.size()) {
    return BadSeeds(text);
  }
  return seeds;
}

}  // namespace pagestorm::bench
