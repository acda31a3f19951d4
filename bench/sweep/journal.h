// The journal of a sweep: each finished run, written down as it ends, so that whatever ends the
// program, the same command goes on with the runs that are missing.
//
// DIR/journal.jsonl: a first line that says which sweep it is, then one line of JSON a run, in the
// order in which they ended. A line is appended in one write; one that is not complete (the host
// died in it) is dropped. One program at a time has it open.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/sweep/row.h"

namespace pagestorm::bench {

class Journal {
 public:
  // Opens the journal in `directory`, or makes both. `identity`: the sweep's PlanJson().
  // InvalidArgument, one line: the directory cannot be written, is in use, holds something else, or
  // holds another sweep; then the line names the first difference.
  static absl::StatusOr<Journal> Open(const std::string& directory, const std::string& identity);
  Journal(Journal&& other) noexcept;
  Journal& operator=(Journal&&) = delete;
  ~Journal();

  // What it held when it was opened, by number of the run.
  [[nodiscard]] const std::vector<RunRow>& finished() const { return finished_; }
  // On the disk's way when it returns: the end of this program does not undo it.
  absl::Status Append(const RunRow& row);

 private:
  Journal(std::string path, int file) : path_(std::move(path)), file_(file) {}
  absl::Status Read(const std::string& directory, const std::string& identity);
  absl::Status WriteLine(const std::string& line) const;

  std::string path_;
  int file_ = -1;
  std::vector<RunRow> finished_;
};

}  // namespace pagestorm::bench
