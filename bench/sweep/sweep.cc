#include "bench/sweep/sweep.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/emulator/emulator.h"
#include "bench/experiments/batch.h"
#include "bench/experiments/progress.h"
#include "bench/sweep/journal.h"
#include "bench/sweep/row.h"
#include "bench/sweep/sweep_files.h"
#include "core/executor.h"
#include "fmt/format.h"
#include "numa/host.h"
#include "numa/machine_spec.h"

namespace pagestorm::bench {
namespace {

namespace fs = std::filesystem;

// Whole files only: written beside their place and renamed.
absl::Status WriteWhole(const std::string& directory, const std::string& name,
                        const std::string& text) {
  const fs::path place = fs::path(directory) / name;
  const fs::path temporary = fs::path(directory) / (name + ".tmp");
  std::ofstream file(temporary, std::ios::binary);
  file << text;
  file.close();
  std::error_code error;
  if (file) fs::rename(temporary, place, error);
  if (file && !error) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--out ", directory, ": ", name, " cannot be written"));
}

absl::Status WriteFiles(const std::string& directory, const SweepResults& results) {
  const std::pair<const char*, std::string> files[] = {
      {"runs.csv", RunsCsv(results)},
      {"points.csv", PointsCsv(results)},
      {"sweep.json", SweepJson(results)},
      {"host-runs.csv", HostCsv(results)},
  };
  for (const auto& [name, text] : files) {
    const absl::Status status = WriteWhole(directory, name, text);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// As many machines at a time as the host's memory holds.
int Workers(const SweepPlan& plan, int wanted) {
  std::int64_t bytes = 1;
  for (const SweepPoint& point : plan.points) bytes = std::max(bytes, HostBytesOf(point.config));
  const std::int64_t available = numa::ReadHostFacts().memory_available_bytes;
  int workers = Executor(wanted).workers();
  while (workers > 1 && !numa::HostMemoryCheck(workers * bytes, available).fits) --workers;
  return workers;
}

// The runs of one call, what came of them, and how far they are.
class Runner {
 public:
  Runner(const SweepPlan& plan, const SweepOptions& options, Journal* journal)
      : plan_(plan),
        options_(options),
        journal_(journal),
        progress_(options.progress ? Progress::Mode::kAuto : Progress::Mode::kOff, "sweep:") {
    if (journal != nullptr) rows_ = journal->finished();
    auto row = rows_.begin();
    for (std::size_t run = 0; run < plan.runs(); ++run) {
      while (row != rows_.end() && row->run < run) ++row;
      if (row == rows_.end() || row->run != run) missing_.push_back(run);
    }
    permille_ = std::vector<std::atomic<int>>(missing_.size());
  }

  absl::Status Run(int workers) {
    BatchOptions batch;
    batch.workers = workers;
    batch.interrupted = options_.interrupted;
    batch.abandoned = &abandoned_;
    batch.progress = [this](std::size_t index, int permille) { Report(index, permille); };
    RunBatch(
        missing_.size(), [this](std::size_t index) { return plan_.ConfigOf(missing_[index]); },
        batch,
        [this](std::size_t index, const absl::StatusOr<RunRecord>& record) {
          const absl::Status status = Done(index, record);
          if (status.ok()) return;
          abandoned_ = true;
          if (failure_.ok()) failure_ = status;
        });
    std::sort(rows_.begin(), rows_.end(),
              [](const RunRow& a, const RunRow& b) { return a.run < b.run; });
    return failure_;
  }

  [[nodiscard]] const std::vector<RunRow>& rows() const { return rows_; }
  [[nodiscard]] std::size_t missing() const { return missing_.size(); }

 private:
  // One call at a time.
  absl::Status Done(std::size_t index, const absl::StatusOr<RunRecord>& record) {
    const std::size_t run = missing_[index];
    if (!record.ok()) {
      return absl::Status(record.status().code(),
                          absl::StrCat(plan_.NameOf(plan_.PointOf(run)), ", seed ",
                                       plan_.SeedOf(run), ": ", record.status().message()));
    }
    if (record->outcome.run.end == RunEnd::kStopped) return absl::OkStatus();  // to be run again
    RunRow row = RowOf(run, *record);
    const absl::Status status = journal_ == nullptr ? absl::OkStatus() : journal_->Append(row);
    rows_.push_back(std::move(row));
    ++ended_;
    Report(index, 1000);
    return status;
  }

  // By any worker.
  void Report(std::size_t index, int permille) {
    permille_[index].store(permille, std::memory_order_relaxed);
    const std::unique_lock lock(mu_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    std::int64_t sum = 0;
    for (const auto& each : permille_) sum += each.load(std::memory_order_relaxed);
    progress_.Poll(static_cast<int>(sum / static_cast<std::int64_t>(permille_.size())),
                   [this] { return fmt::format("{} of {} runs", ended_.load(), missing_.size()); });
  }

  const SweepPlan& plan_;
  const SweepOptions& options_;
  Journal* const journal_;
  std::vector<RunRow> rows_;
  std::vector<std::size_t> missing_;        // runs to do, ascending
  std::vector<std::atomic<int>> permille_;  // of each of them
  std::atomic<std::size_t> ended_{0};
  std::atomic<bool> abandoned_{false};
  absl::Status failure_;
  std::mutex mu_;  // progress_
  Progress progress_;
};

int ExitCodeOf(const std::vector<RunRow>& rows) {
  int worst = kExitDone;
  for (const RunRow& row : rows) worst = std::max(worst, row.exit_code);
  return worst;
}

}  // namespace

absl::StatusOr<SweepOutcome> RunSweep(const SweepPlan& plan, const SweepOptions& options) {
  std::optional<Journal> journal;
  if (!options.out.empty()) {
    auto opened = Journal::Open(options.out, PlanJson(plan));
    if (!opened.ok()) return opened.status();
    journal.emplace(*std::move(opened));
  }
  if (options.started) options.started();
  SweepOutcome outcome;
  outcome.workers = Workers(plan, options.workers);
  std::vector<RunRow> rows;
  absl::Status status;
  {
    Runner runner(plan, options, journal ? &*journal : nullptr);
    outcome.resumed = plan.runs() - runner.missing();
    status = runner.Run(outcome.workers);
    rows = runner.rows();
  }
  const SweepResults results{plan, rows};
  outcome.runs = rows.size();
  if (journal) {
    const absl::Status written = WriteFiles(options.out, results);
    if (status.ok()) status = written;
  }
  if (!status.ok()) return status;
  const bool cut = rows.size() < plan.runs();
  outcome.exit_code = cut ? int{kExitInterrupted} : ExitCodeOf(rows);
  outcome.table = SweepTable(results);
  return outcome;
}

}  // namespace pagestorm::bench
