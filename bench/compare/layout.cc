#include "bench/compare/layout.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/check.h"
#include "fmt/format.h"

namespace pagestorm::bench {
namespace {

constexpr int kMonitorWidth = 12;
constexpr std::string_view kRc = "-rc";

// Equal bit by bit: what these reports ask before they divide.
bool Same(double a, double b) { return !(a < b) && !(b < a) && a == a && b == b; }

double PercentHigher(double baseline, double value) {
  if (Same(value, baseline) || Same(value, 0)) return 0;
  if (Same(baseline, 0)) return 100;
  return value * 100 / baseline - 100;
}

double PercentLower(double baseline, double value, Compat compat) {
  if (Same(value, baseline)) return 0;
  if (Same(value, 0)) return compat == Compat::k2013 ? 0 : 100;
  if (Same(baseline, 0)) return -99;
  return 100 - value * 100 / baseline;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Where the first part of a name ends.
std::size_t FirstPart(std::string_view name, bool quirks) {
  const std::size_t dash = name.find('-');
  if (dash == std::string_view::npos || name.substr(dash, kRc.size()) != kRc) return dash;
  const std::size_t digits = dash + kRc.size();
  std::size_t end = digits;
  while (end < name.size() && IsDigit(name[end])) ++end;
  if (end == digits || (quirks && end > digits + 1)) return dash;
  if (end == name.size()) return std::string_view::npos;
  return name[end] == '-' ? end : dash;
}

// The two lines of names, each name right-aligned in `width` after `indent` blanks.
std::string Head(const std::vector<std::string>& names, std::size_t indent, int width,
                 bool quirks) {
  std::string lines[2];
  for (std::string& line : lines) line.assign(indent, ' ');
  for (const std::string& name : names) {
    const auto [first, second] = SplitName(name, quirks);
    lines[0] += fmt::format("{:>{}}", first, width);
    lines[1] += fmt::format("{:>{}}", second, width);
  }
  return lines[0] + "\n" + lines[1] + "\n";
}

int PercentWidth(Compat compat) { return compat == Compat::kCurrent ? 7 : 6; }

std::string Percent(double percent, bool significant, int width) {
  return significant ? fmt::format(" *{}%*", Fixed(percent, width, 2))
                     : fmt::format(" ({}%)", Fixed(percent, width, 2));
}

template <typename Rows, typename Member>
std::size_t Longest(const Rows& rows, Member member) {
  std::size_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, (row.*member).size());
  return longest;
}

}  // namespace

double PercentBetter(Better better, double baseline, double value, Compat compat) {
  return better == Better::kHigher ? PercentHigher(baseline, value)
                                   : PercentLower(baseline, value, compat);
}

std::pair<std::string, std::string> SplitName(std::string_view name, bool quirks) {
  const std::size_t end = FirstPart(name, quirks);
  if (end == std::string_view::npos) return {std::string(name), ""};
  return {std::string(name.substr(0, end)), std::string(name.substr(end + 1))};
}

std::string Fixed(double value, int width, int decimals) {
  if (std::isnan(value)) return fmt::format("{:>{}}", "NaN", width);
  return fmt::format("{:{}.{}f}", value, width, decimals);
}

std::string ComparisonTable(const std::vector<std::string>& names, const std::vector<Row>& rows,
                            const TableOptions& options) {
  const Style style = options.style;
  const std::size_t statistics = Longest(rows, &Row::statistic);
  const std::size_t operations = Longest(rows, &Row::operation);
  const int percent_width = PercentWidth(style.compat);
  std::string text = Head(names, statistics + 1 + operations,
                          options.field_width + percent_width + 4, style.quirks);
  for (const Row& row : rows) {
    PS_CHECK(row.values.size() == names.size());
    text += fmt::format("{:<{}} {:<{}}", row.statistic, statistics, row.operation, operations);
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      const double percent =
          PercentBetter(row.better, row.values.front(), row.values[i], style.compat);
      text += Fixed(row.values[i], options.field_width, row.decimals) +
              Percent(percent, !row.significant.empty() && row.significant[i], percent_width);
    }
    text += '\n';
  }
  return text;
}

std::string MonitorTable(const std::vector<std::string>& names, const std::vector<MonitorRow>& rows,
                         int field_width, bool quirks) {
  const std::size_t labels = Longest(rows, &MonitorRow::label);
  std::string text = Head(names, labels, field_width, quirks);
  for (const MonitorRow& row : rows) {
    PS_CHECK(row.cells.size() == names.size());
    text += fmt::format("{:<{}}", row.label, labels);
    for (const std::string& cell : row.cells) text += fmt::format("{:>{}}", cell, field_width);
    text += '\n';
  }
  return text;
}

std::string DurationTable(const std::vector<std::string>& names,
                          const std::vector<Duration>& durations, Style style) {
  std::vector<MonitorRow> rows;
  const auto add = [&](const std::string& label, double Duration::*member) {
    const bool current = style.compat == Compat::kCurrent;
    MonitorRow row{current ? fmt::format("{:<8} {:<7}", "Duration", label) : label, {}};
    for (const Duration& duration : durations) {
      row.cells.push_back(Fixed(duration.*member, kMonitorWidth, 2));
    }
    rows.push_back(std::move(row));
  };
  add("User", &Duration::user);
  add("System", &Duration::system);
  add("Elapsed", &Duration::elapsed);
  return MonitorTable(names, rows, kMonitorWidth, style.quirks);
}

}  // namespace pagestorm::bench
