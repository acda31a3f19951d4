#include "bench/emulator/process_table.h"

#include <mutex>
#include <utility>

#include "bench/emulator/emulator.h"
#include "mm/page_cache.h"
#include "mm/slab.h"

namespace pagestorm::bench {

std::unique_ptr<Process> ProcessTable::Make(std::string comm) {
  std::int64_t number = 0;
  {
    std::lock_guard guard(mu_);
    number = next_number_++;
  }
  return std::unique_ptr<Process>(new Process(emulator_, number, std::move(comm)));
}

void ProcessTable::Spawn(Process& process, bool daemon, std::function<void(Process&)> body) {
  SpawnOptions options;
  options.name = process.comm_;
  options.daemon = daemon;
  options.mm = static_cast<mm::TaskMm*>(&process.mm_);
  emulator_.engine().Spawn(std::move(options),
                           [&process, body = std::move(body)] { process.Live(body); });
}

Process* ProcessTable::Launch(std::unique_ptr<Process> child, Process& parent,
                              std::function<void(Process&)> body) {
  Process* launched = child.get();
  launched->parent_ = &parent;
  {
    std::lock_guard guard(mu_);
    parent.children_.emplace(launched->number_, std::move(child));
  }
  Spawn(*launched, /*daemon=*/false, std::move(body));
  return launched;
}

void ProcessTable::SpawnInit(std::string comm, std::function<void(Process&)> main,
                             std::function<void(MainEnd)> on_main_exit) {
  init_ = Make("init");
  init_->mm_.is_init = true;
  Spawn(*init_, /*daemon=*/false,
        [this, comm = std::move(comm), main = std::move(main),
         on_main_exit = std::move(on_main_exit)](Process& init) {
          emulator_.memory().slab->FillAtBoot();
          emulator_.memory().page_cache->FillAtBoot();
          const Process* child = init.Fork(comm, KernelFootprint{}, main);
          if (child == nullptr) return on_main_exit(MainEnd::kNotStarted);
          RunInit(init, child->number_, on_main_exit);
        });
}

void ProcessTable::RunInit(Process& init, std::int64_t main_number,
                           const std::function<void(MainEnd)>& on_main_exit) {
  while (init.children() > 0) {
    const auto [number, normal] = init.Reap();
    if (number == main_number) on_main_exit(normal ? MainEnd::kNormal : MainEnd::kKilled);
  }
  emulator_.Settle();
}

void ProcessTable::SpawnDaemon(std::string comm, std::function<void(Process&)> body) {
  daemons_.push_back(Make(std::move(comm)));
  daemons_.back()->daemon_ = true;
  Spawn(*daemons_.back(), /*daemon=*/true, std::move(body));
}

void ProcessTable::Adopt(Process& process) {
  if (init_ == nullptr || &process == init_.get()) return;
  for (auto& [number, child] : process.children_) {
    child->parent_ = init_.get();
    init_->children_.emplace(number, std::move(child));
  }
  process.children_.clear();
  for (const auto& exited : process.exited_) init_->exited_.push_back(exited);
  process.exited_.clear();
}

void ProcessTable::NoteEnd(Process& process, bool normal) {
  std::shared_ptr<WaitQueue> tell;
  std::shared_ptr<WaitQueue> tell_init;
  {
    std::lock_guard guard(mu_);
    if (!process.children_.empty()) tell_init = init_->child_exit_;
    Adopt(process);
    if (process.parent_ != nullptr) {
      process.parent_->exited_.emplace_back(process.number_, normal);
      tell = process.parent_->child_exit_;
    }
    process.task_ = nullptr;
  }
  // From here on the parent may have reaped and freed `process`.
  if (tell_init != nullptr) tell_init->WakeAll();
  if (tell != nullptr) tell->WakeAll();
}

}  // namespace pagestorm::bench
