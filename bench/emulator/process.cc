#include "bench/emulator/process.h"

#include <mutex>

#include "bench/emulator/emulator.h"
#include "bench/emulator/process_table.h"
#include "core/check.h"
#include "mm/memcg.h"

namespace pagestorm::bench {

struct Process::Space {
  mm::MmStruct* mm = nullptr;
  std::atomic<int> users{1};  // processes that have not left it
};

Process::Process(Emulator& emulator, std::int64_t number, std::string comm)
    : emulator_(emulator),
      number_(number),
      comm_(std::move(comm)),
      child_exit_(std::make_shared<WaitQueue>(emulator.engine(), "the exit of a child", number)) {
  mm_.process = this;
}

Process::~Process() = default;

Process& Process::Current() {
  auto* part = static_cast<mm::TaskMm*>(pagestorm::Current().mm);
  PS_CHECK(part != nullptr && part->space != nullptr, "the current task is no process");
  return *static_cast<Part*>(part)->process;
}

mm::MemoryManager& Process::memory() { return emulator_.memory(); }

// --- life ---

void Process::Live(const std::function<void(Process&)>& body) {
  bool normal = false;
  try {
    Begin();
    body(*this);
    normal = !pagestorm::Current().fatal_signal.load(std::memory_order_acquire);
  } catch (const Cancelled&) {
    // Killed, or the machine shuts down. The stack is unwound.
  }
  End(normal);
}

void Process::Begin() {
  Task& task = pagestorm::Current();
  bool killed = false;
  {
    std::lock_guard guard(emulator_.processes().mu());
    task_ = &task;
    killed = killed_before_start_;
  }
  mm_.task = &task;
  if (space_ == nullptr) {  // init and daemons start from nothing
    auto space = std::make_shared<Space>();
    space->mm = memory().spaces->Create({.page_tables = 1, .slab_pages = 1, .stack_order = 0});
    if (space->mm == nullptr) throw Cancelled{};
    space_ = std::move(space);
    mm_.space = space_->mm;
  }
  memory().oom->AddTask(mm_);
  registered_ = true;
  if (killed) throw Cancelled{};
}

void Process::End(bool normal) {
  Task& task = pagestorm::Current();
  task.flags |= PF_EXITING;
  if (registered_) static_cast<void>(memory().oom->TakeSpace(mm_));
  LeaveMemory();
  if (registered_) memory().oom->RemoveTask(mm_);
  task.mm = nullptr;
  emulator_.processes().NoteEnd(*this, normal);
}

// Nothing in here blocks: the task may be unwinding.
void Process::LeaveMemory() {
  if (is_thread_) {
    Charge({memory().costs.exit_ns});
    thread_kernel_.Free();
  }
  if (space_ == nullptr || space_->users.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  memory().spaces->Destroy(space_->mm);
}

// --- family ---

Process* Process::Fork(std::string comm, const KernelFootprint& kernel,
                       std::function<void(Process&)> body, CloneKind kind) {
  ProcessTable& table = emulator_.processes();
  std::unique_ptr<Process> child = table.Make(std::move(comm));
  const mm::AddressSpaces::Kernel wanted{.page_tables = kernel.page_tables,
                                         .slab_pages = kernel.slab_pages,
                                         .stack_order = kernel.stack_order};
  if (kind == CloneKind::kThread) {
    Charge({memory().costs.fork_ns});
    child->is_thread_ = true;
    if (!child->thread_kernel_.Alloc(memory(), wanted, -1)) return nullptr;
    space_->users.fetch_add(1, std::memory_order_relaxed);
    child->space_ = space_;
  } else {
    mm::MmStruct* copy = memory().spaces->Fork(*mm_.space, wanted);
    if (copy == nullptr) return nullptr;
    child->space_ = std::make_shared<Space>();
    child->space_->mm = copy;
  }
  child->mm_.space = child->space_->mm;
  child->mm_.parent = task_->id;
  return table.Launch(std::move(child), *this, std::move(body));
}

bool Process::TakeExited(std::pair<std::int64_t, bool>& exited) {
  std::lock_guard guard(emulator_.processes().mu());
  if (exited_.empty()) return false;
  exited = exited_.front();
  exited_.pop_front();
  return true;
}

std::pair<std::int64_t, bool> Process::Reap() {
  PS_CHECK(children() > 0, "waiting for a child without having one");
  Charge({memory().costs.syscall_ns});
  std::pair<std::int64_t, bool> exited{};
  child_exit_->Wait([&] { return TakeExited(exited); }, {.interruptible = true});
  std::unique_ptr<Process> gone;
  std::lock_guard guard(emulator_.processes().mu());
  const auto child = children_.find(exited.first);
  gone = std::move(child->second);
  children_.erase(child);
  return exited;
}

bool Process::WaitChild() { return Reap().second; }

std::size_t Process::children() const {
  std::lock_guard guard(emulator_.processes().mu());
  return children_.size();
}

void Process::KillChildren() {
  std::lock_guard guard(emulator_.processes().mu());
  for (const auto& [number, child] : children_) {
    if (child->task_ != nullptr) {
      emulator_.engine().Kill(*child->task_, /*memdie=*/false);
    } else {
      child->killed_before_start_ = true;  // or it has ended already
    }
  }
}

// --- memory ---

void Process::OnOom() {
  // "VM: killing process": the fault found no page and no other task was chosen.
  emulator_.engine().Kill(*task_, /*memdie=*/false);
  ReturnToUser();
}

void Process::Write(std::uint32_t page, std::uint64_t stamp) {
  if (memory().spaces->Write(*mm_.space, page, stamp) == mm::AccessResult::kOom) OnOom();
}

std::uint64_t Process::Read(std::uint32_t page) {
  std::uint64_t stamp = 0;
  if (memory().spaces->Read(*mm_.space, page, &stamp) == mm::AccessResult::kOom) OnOom();
  return stamp;
}

bool Process::Holds(std::uint32_t page, std::uint64_t stamp) {
  return Read(page) == stamp || !memory().config.stamps;
}

std::uint32_t Process::MapAnon(std::int64_t pages) {
  return memory().spaces->MapAnon(*mm_.space, pages);
}

void Process::JoinCgroup(std::int64_t n) {
  if (memory().cgroups == nullptr || is_thread_) return;
  memory().cgroups->Attach(*mm_.space, n);
}

void Process::Unmap(std::uint32_t first, std::int64_t pages) {
  memory().spaces->Unmap(*mm_.space, first, pages);
}

}  // namespace pagestorm::bench
