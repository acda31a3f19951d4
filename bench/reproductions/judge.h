// Whether what was measured bears out what a table claims.
//
// The rules are those of docs/reproductions/README.md: a claim holds if the whole 95 % interval of
// its value, by a bootstrap over seeds, lies in its band; a claim that cannot be evaluated does not
// hold; what the machine was fitted to is not scored.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/reproductions/figures.h"
#include "bench/reproductions/table.h"
#include "bench/stats/interval.h"

namespace pagestorm::bench::reproductions {

// What a claim comes to. A statistic over several rows has extremes beside its value.
struct Reading {
  double value = 0, low = 0, high = 0;
};

struct Verdict {
  std::string id;  // "throttle-v7/iii"
  std::optional<double> published, emulated;
  std::int64_t published_n = 0, emulated_n = 0;  // runs behind it; published 0: not said
  std::optional<stats::Interval> interval;
  bool evaluated = false;
  bool holds = false;
  bool scored = true;  // false: all its figures were fitted
  std::string note;    // why it was not evaluated, or what else is worth knowing

  [[nodiscard]] bool failed() const { return scored && !holds; }
};

// The statistic of a claim of any kind but oom_curve. None: a figure is missing.
std::optional<Reading> Read(const Claim& claim, const Table& table, const Figures& figures);

// One verdict a claim, in the table's order.
//   rows: indices of the rows that were run.
std::vector<Verdict> Judge(const Table& table, const std::vector<std::size_t>& rows,
                           const TableRuns& runs);

}  // namespace pagestorm::bench::reproductions
