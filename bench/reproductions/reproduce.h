// Running a published table again and judging it: each run is one column at one row with one seed.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/config/loader.h"
#include "bench/reproductions/figures.h"
#include "bench/reproductions/judge.h"
#include "bench/reproductions/table.h"

namespace pagestorm::bench::reproductions {

struct ReproduceOptions {
  LengthKind length = LengthKind::kDefault;
  int seeds = 0;                // 0: as many as the length says; seeds 1, 2, ...
  int workers = 0;              // runs at a time; 0: one for each host core
  double disk_speed = 1;        // the swap disk, times the machine's
  double ram_percent = 0;       // memory of every node, more or less
  bool sensitivity = false;     // also with other disks and memory: Reproduction::varied
  std::vector<Setting> sets{};  // on top of everything, in every column
  bool progress = false;        // on stderr
  const std::atomic<bool>* interrupted = nullptr;
};

// A reproduction: everything that reports are made from. All but host_s and started is a function
// of the files and the options, whatever the number of workers.
struct Reproduction {
  Table table;
  LengthKind length = LengthKind::kDefault;
  int seeds = 0;
  std::string machine;                 // as emulated, one line
  std::vector<std::string> shortened;  // against the full length, one line each; empty: nothing
  std::vector<std::string> variants;   // what was asked for beside the table; empty: nothing
  TableRuns runs{0, 0, 0};
  std::vector<Verdict> verdicts;
  std::vector<std::string> troubles;   // runs that failed by themselves
  bool stalled = false;                // one of them stalled
  bool partial = false;                // interrupted
  std::vector<Reproduction> varied{};  // the disk at half and twice its speed, RAM -1 % and +1 %
  std::string started;                 // host's date and time
  double host_s = 0;

  [[nodiscard]] const std::vector<std::size_t>& rows() const { return table.length(length).rows; }
  // Whether the cell belongs to what is run at this length.
  [[nodiscard]] bool IsRun(Cell cell) const;
  [[nodiscard]] ExitCode exit_code() const;
};

[[nodiscard]] const char* LengthName(LengthKind kind);  // "quick", "default", "full"

// Runs and judges; with `sensitivity` once more for each variation, until interrupted.
// InvalidArgument, NotFound: bad input, found before anything runs; ResourceExhausted: the host
// cannot hold a machine.
absl::StatusOr<Reproduction> Reproduce(const Table& table, const ReproduceOptions& options,
                                       const LoadContext& context);

}  // namespace pagestorm::bench::reproductions
