// All processes of one machine: who is whose child, and init, which adopts orphans.
//
// Thread-safe. Processes are owned by their parents; init and the daemons by the table.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/emulator/process.h"
#include "core/raw_lock.h"

namespace pagestorm::bench {

class ProcessTable {
 public:
  ProcessTable(Emulator& emulator, EngineKind kind) : emulator_(emulator), mu_(kind) {}

  // Spawns init, whose only child runs `main`; init reaps until it has no child left. Before Run().
  //   on_main_exit: told, on init's task, how main ended: normally, killed, or not started.
  enum class MainEnd { kNormal, kKilled, kNotStarted };
  void SpawnInit(std::string comm, std::function<void(Process&)> main,
                 std::function<void(MainEnd)> on_main_exit);
  // Spawns a process that does not keep the machine running. Before Run().
  void SpawnDaemon(std::string comm, std::function<void(Process&)> body);

  [[nodiscard]] RawLock& mu() { return mu_; }
  // Processes made so far; at rest.
  [[nodiscard]] std::int64_t created() const { return next_number_ - 1; }
  // A new process of that name without task or memory.
  std::unique_ptr<Process> Make(std::string comm);
  // Makes a process the child of `parent` and lets it run. The address space is set.
  Process* Launch(std::unique_ptr<Process> child, Process& parent,
                  std::function<void(Process&)> body);
  // The process has given up everything: its children go to init, its parent is told.
  void NoteEnd(Process& process, bool normal);

 private:
  void Spawn(Process& process, bool daemon, std::function<void(Process&)> body);
  void Adopt(Process& process);
  void RunInit(Process& init, std::int64_t main_number,
               const std::function<void(MainEnd)>& on_main_exit);

  Emulator& emulator_;
  RawLock mu_;  // guards the family links of all processes
  std::int64_t next_number_ = 1;
  std::unique_ptr<Process> init_;
  std::vector<std::unique_ptr<Process>> daemons_;
};

}  // namespace pagestorm::bench
