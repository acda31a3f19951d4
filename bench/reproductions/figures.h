// The figures of a table by cell: those that were published, those that were measured, and
// resamples of the measured ones. Claims are computed from any of them in the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "bench/reproductions/metric.h"
#include "bench/reproductions/table.h"

namespace pagestorm::bench::reproductions {

// Every run of a table at one length: a cube of column, row and seed. Cells that are not run stay
// kNotRun.
class TableRuns {
 public:
  TableRuns(std::size_t columns, std::size_t rows, int seeds)
      : rows_(rows), seeds_(static_cast<std::size_t>(seeds)), outcomes_(columns * rows * seeds_) {}

  [[nodiscard]] std::size_t seeds() const { return seeds_; }
  [[nodiscard]] RunOutcome& At(Cell cell, std::size_t seed) {
    return outcomes_[(cell.column * rows_ + cell.row) * seeds_ + seed];
  }
  [[nodiscard]] const RunOutcome& At(Cell cell, std::size_t seed) const {
    return outcomes_[(cell.column * rows_ + cell.row) * seeds_ + seed];
  }

 private:
  std::size_t rows_;
  std::size_t seeds_;
  std::vector<RunOutcome> outcomes_;
};

// How many runs of a cell ended, and how many of them in an OOM kill.
struct OomCount {
  std::int64_t kills = 0;
  std::int64_t runs = 0;
};

// "None" is an everyday answer: not published, no survivor, not run.
class Figures {
 public:
  virtual ~Figures() = default;
  // Over survivors.
  [[nodiscard]] virtual std::optional<double> Mean(Cell cell, std::size_t metric) const = 0;
  // Standard deviation over mean, of at least two survivors.
  [[nodiscard]] virtual std::optional<double> Variation(Cell cell, std::size_t metric) const = 0;
  [[nodiscard]] virtual OomCount Ooms(Cell cell) const = 0;
};

class PublishedFigures final : public Figures {
 public:
  explicit PublishedFigures(const Table& table) : table_(table) {}
  [[nodiscard]] std::optional<double> Mean(Cell cell, std::size_t metric) const override {
    return table_.Published(cell, metric);
  }
  [[nodiscard]] std::optional<double> Variation(Cell, std::size_t) const override {
    return std::nullopt;  // no table gives the single runs
  }
  [[nodiscard]] OomCount Ooms(Cell) const override { return {}; }

 private:
  const Table& table_;
};

class MeasuredFigures final : public Figures {
 public:
  // seeds: which runs of each cell are looked at, repetitions allowed. A seed stands for one boot
  // of the machine, the same in every cell, so cells are resampled together.
  MeasuredFigures(const TableRuns& runs, std::vector<std::size_t> seeds)
      : runs_(runs), seeds_(std::move(seeds)) {}
  // All runs, once each.
  explicit MeasuredFigures(const TableRuns& runs);

  [[nodiscard]] std::optional<double> Mean(Cell cell, std::size_t metric) const override;
  [[nodiscard]] std::optional<double> Variation(Cell cell, std::size_t metric) const override;
  [[nodiscard]] OomCount Ooms(Cell cell) const override;
  // The survivors' values, in order of seed.
  [[nodiscard]] std::vector<double> Values(Cell cell, std::size_t metric) const;

 private:
  const TableRuns& runs_;
  const std::vector<std::size_t> seeds_;
};

}  // namespace pagestorm::bench::reproductions
