// Processes of the emulated machine: a task, its address space and its place in the family tree.
//
// Wires core (the task), mm (address space, kernel memory, the OOM killer's task list) together.
// All calls come from tasks. A process ends when its body returns, or when Cancelled unwinds it
// (killed, or the machine shuts down); its memory is then freed by itself, and its parent is told.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/engine.h"
#include "core/wait_queue.h"
#include "mm/address_space.h"
#include "mm/kernel_memory.h"
#include "mm/oom.h"

namespace pagestorm::bench {

class Emulator;

// Memory the kernel itself takes for one process, frames of the machine's page size
// (docs/model.md).
struct KernelFootprint {
  int page_tables = 1;
  int slab_pages = 1;
  int stack_order = 1;
};

// What a child gets of its parent's memory: a copy-on-write copy, or the same address space.
enum class CloneKind : std::uint8_t { kProcess, kThread };

class Process {
 public:
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The calling process; PS_CHECKs that the current task is one.
  static Process& Current();

  // Creates a child that runs `body`, with a copy-on-write copy of the caller's address space.
  // Charges the cost of a fork to the caller. nullptr: no memory (fork fails with ENOMEM), or the
  // caller was killed. The pointer stays valid until WaitChild() has reaped it.
  Process* Fork(std::string comm, const KernelFootprint& kernel, std::function<void(Process&)> body,
                CloneKind kind = CloneKind::kProcess);
  // SIGKILL to every living child.
  void KillChildren();

  // Sleeps until a child has exited and reaps one (in order of exit). Returns whether it exited
  // normally; there must be a child.
  bool WaitChild();
  [[nodiscard]] std::size_t children() const;

  // One access to a page of this process; kOom makes the process die as the kernel would have it.
  void Write(std::uint32_t page, std::uint64_t stamp);
  std::uint64_t Read(std::uint32_t page);
  // Reads; whether the page still holds `stamp`. Without stamps in the frames there is no telling:
  // true.
  [[nodiscard]] bool Holds(std::uint32_t page, std::uint64_t stamp);
  std::uint32_t MapAnon(std::int64_t pages);
  void Unmap(std::uint32_t first, std::int64_t pages);

  // Moves this process to a memory cgroup: to number `n`, counted round, of those without children.
  // Its children begin there. Nothing on a machine without groups, and for a thread, which is where
  // its process is.
  void JoinCgroup(std::int64_t n);

  [[nodiscard]] Emulator& emulator() { return emulator_; }
  [[nodiscard]] mm::MemoryManager& memory();
  [[nodiscard]] Task& task() { return *task_; }
  [[nodiscard]] mm::MmStruct& space() { return *mm_.space; }

 private:
  friend class Emulator;
  friend class ProcessTable;
  struct Space;  // an address space and the processes that live in it

  // The part of a task that mm/ sees, and the way back from it.
  struct Part : mm::TaskMm {
    Process* process = nullptr;
  };

  Process(Emulator& emulator, std::int64_t number, std::string comm);

  void Live(const std::function<void(Process&)>& body);  // the task's body
  void Begin();  // on its own task: gets memory and enters the OOM killer's list
  void End(bool normal);
  void LeaveMemory();
  void OnOom();
  // What WaitChild() does; also says whom it reaped.
  std::pair<std::int64_t, bool> Reap();
  [[nodiscard]] bool TakeExited(std::pair<std::int64_t, bool>& exited);

  Emulator& emulator_;
  const std::int64_t number_;  // in order of creation
  const std::string comm_;
  Process* parent_ = nullptr;  // the table's lock
  bool daemon_ = false;
  Task* task_ = nullptr;  // written under the table's lock
  Part mm_;
  bool registered_ = false;  // with the OOM killer
  std::shared_ptr<Space> space_;
  bool is_thread_ = false;
  mm::KernelPages thread_kernel_;  // of a thread: what its process's address space does not hold

  // The table's lock, down to the blank line.
  std::map<std::int64_t, std::unique_ptr<Process>> children_;  // living or not reaped, by number
  std::deque<std::pair<std::int64_t, bool>> exited_;           // number, normally
  bool killed_before_start_ = false;

  std::shared_ptr<WaitQueue>
      child_exit_;  // shared: a child may still be waking it when we are gone
};

}  // namespace pagestorm::bench
