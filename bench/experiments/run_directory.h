// A run directory: everything a run leaves behind, readable by existing tools.
//
// It is written under a temporary name beside its place and renamed at the end, so a directory of
// the final name is always whole. Nothing in it but host.json depends on the host.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/experiments/record.h"

namespace pagestorm::bench {

class RunDirectory {
 public:
  // Claims the place before the run. InvalidArgument with one line if it exists (force: only if it
  // is no run directory) or cannot be written.
  static absl::StatusOr<RunDirectory> Claim(const std::string& path, bool force);
  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&&) = delete;
  ~RunDirectory();  // removes what was not published

  // Writes the record and moves the directory to its place.
  //   text: what the program printed to stdout about the run.
  absl::Status Publish(const RunRecord& record, const std::string& text);
  // The same for files of one's own; `result.json` must be among them.
  absl::Status Publish(const std::vector<TextFile>& files);

 private:
  RunDirectory(std::string path, std::string temporary)
      : path_(std::move(path)), temporary_(std::move(temporary)) {}
  absl::Status Write(const std::string& name, const std::string& text);

  std::string path_;
  std::string temporary_;  // empty: published or moved from
};

}  // namespace pagestorm::bench
