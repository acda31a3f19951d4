#include "bench/reproductions/sensitivity.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/reproductions/report.h"

namespace pagestorm::bench::reproductions {
namespace {

std::string CellText(const Reproduction& reproduction, Cell cell) {
  const CellSummary summary =
      SummaryOf(reproduction.runs, cell, reproduction.table.metrics.front());
  const std::string kills = summary.ooms.kills > 0 ? absl::StrCat(" (", summary.ooms.kills, "/",
                                                                  summary.ooms.runs, " OOM)")
                                                   : "";
  return Figure(summary.mean) + kills;
}

template <class TextOf>
std::vector<std::string> RowOf(const Reproduction& reproduction, std::string name, TextOf text_of) {
  std::vector<std::string> row{std::move(name), text_of(reproduction)};
  for (const Reproduction& varied : reproduction.varied) row.push_back(text_of(varied));
  return row;
}

}  // namespace

Grid SensitivityGrid(const Reproduction& reproduction) {
  if (reproduction.varied.empty()) return {};
  const Table& table = reproduction.table;
  Grid grid{RowOf(reproduction, "", [](const Reproduction& one) {
    return one.variants.empty() ? "as it is" : absl::StrJoin(one.variants, ", ");
  })};
  for (std::size_t i = 0; i < table.claims.size(); ++i) {
    grid.push_back(RowOf(reproduction, reproduction.verdicts[i].id, [&](const Reproduction& one) {
      const Verdict& verdict = one.verdicts[i];
      return absl::StrCat(VerdictWord(verdict), " ", Figure(verdict.emulated));
    }));
  }
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    for (const std::size_t row : reproduction.rows()) {
      const Cell cell{column, row};
      if (!reproduction.IsRun(cell)) continue;
      grid.push_back(RowOf(reproduction,
                           absl::StrCat(table.columns[column].label, ", ", table.rows[row].label),
                           [&](const Reproduction& one) { return CellText(one, cell); }));
    }
  }
  return grid;
}

}  // namespace pagestorm::bench::reproductions
