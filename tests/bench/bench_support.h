// What the tests of bench/ share: the tree's configurations, scratch directories, small machines.
#pragma once

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "bench/experiments/run.h"
#include "tests/support/source_root.h"

namespace pagestorm::bench {

inline LoadContext TreeContext() { return MakeLoadContext({SourceRoot() + "/configs"}); }

// A directory of its own for one test; gone when it ends.
class Scratch {
 public:
  Scratch() {
    static std::atomic<int> count{0};
    path_ = std::filesystem::temp_directory_path() /
            ("pagestorm-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~Scratch() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] std::string Path(const std::string& name) const { return (path_ / name).string(); }
  // Writes a file and returns its path.
  std::string Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The configuration of a press on the smallest test machine; tests change what they are about.
inline RunConfig SmallRun(std::vector<Setting> sets = {}, const std::string& kernel = "") {
  LoadRequest request;
  request.machine = "tests";
  request.kernel = kernel;
  request.workload = "press";
  request.sets = {{"--set", "workload.mib=4"}, {"--set", "workload.sweeps=1"}};
  request.sets.insert(request.sets.end(), sets.begin(), sets.end());
  auto config = LoadRunConfig(request, TreeContext());
  INFO(config.status().message());
  REQUIRE(config.ok());
  return *std::move(config);
}

// Runs a prepared configuration that must run.
inline RunRecord Execute(const RunConfig& config) {
  auto record = ExecuteRun(config, {});
  INFO(record.status().message());
  REQUIRE(record.ok());
  return *std::move(record);
}

// One of the workload's numbers, which must be there.
inline std::int64_t Number(const RunRecord& record, const std::string& name) {
  for (const auto& [key, value] : record.workload.numbers) {
    if (key == name) return value;
  }
  FAIL("no number " << name);
  return 0;
}

}  // namespace pagestorm::bench
