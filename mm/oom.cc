#include "mm/oom.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "core/check.h"
#include "core/sleep_lock.h"
#include "core/spin_lock.h"
#include "mm/address_space.h"
#include "mm/lru.h"
#include "mm/memcg.h"
#include "mm/oom_reaper.h"
#include "mm/oom_report.h"
#include "mm/oom_select.h"
#include "mm/reclaim.h"
#include "mm/vmstat.h"
#include "mm/zone.h"

namespace pagestorm::mm {

std::string CommOf(const Task& task) {
  constexpr std::size_t kCommLength = 15;
  return task.name.substr(0, kCommLength);
}

namespace {

constexpr std::size_t kSnapshotsMax = 1000;

class OomKiller2008 final : public OomKiller {
 public:
  explicit OomKiller2008(MemoryManager& mm)
      : mm_(mm),
        tasklist_lock_(mm.engine, LockRank::kTaskList, "tasklist_lock"),
        zone_scan_lock_(mm.engine, LockRank::kOomScan, "zone_scan_lock"),
        oom_lock_(mm.engine, "oom_lock"),
        snapshots_mu_(mm.engine.kind()) {
    if (!mm.policy.oom.reaper) return;
    reaper_ = std::make_unique<OomReaper>(mm, oom_lock_, [this](TaskId id) { return Pin(id); });
  }

  bool TryLockZones(std::span<Zone* const> zonelist) override;
  // Held since TryLockZones() said so, which the analysis cannot follow through the policy.
  void UnlockZones(std::span<Zone* const> zonelist) override ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void OutOfMemory(std::span<Zone* const> zonelist, Gfp gfp, int order) override;
  [[nodiscard]] bool OutOfMemoryIn(MemCgroup& group, Gfp gfp) override;
  void StartDaemons() override;
  [[nodiscard]] std::int64_t kills() const override { return kills_.load(); }
  [[nodiscard]] bool panicked() const override { return panicked_.load(); }
  void AllocationFailure(Gfp gfp, int order) override;
  [[nodiscard]] std::string ShowMem() const override { return MemInfoReport(mm_); }
  void AddTask(TaskMm& task) override;
  void RemoveTask(TaskMm& task) override;
  MmStruct* TakeSpace(TaskMm& task) override;
  [[nodiscard]] std::vector<Snapshot> snapshots() const override;

 private:
  // What a call is about; for the report.
  struct Request {
    Gfp gfp;
    int order;
    MemCgroup* full = nullptr;  // the group whose limit is reached; nullptr: the machine is full
  };

  void Panic(const char* why);
  void ChooseAndKillLocked(std::span<Zone* const> zonelist, const Request& request);
  bool ChooseInGroupLocked(const Request& request);
  [[nodiscard]] std::string ReportLocked(const Request& request);
  [[nodiscard]] bool CoversAllNodes(std::span<Zone* const> zonelist) const;
  // oom_kill_process: a child, or the task itself. False: neither can be killed.
  bool KillChildOrSelfLocked(TaskMm& task, std::uint64_t points, const char* message,
                             const Request& request);
  bool KillLocked(TaskMm& task);
  void NoteKill(const TaskMm& victim);
  [[nodiscard]] TaskMm* PartOfLocked(TaskId id);
  // The space of a registered task, with one more user; nullptr: it has none any more.
  [[nodiscard]] MmStruct* Pin(TaskId id);

  MemoryManager& mm_;
  SpinLock tasklist_lock_;  // guards tasks_, and parent, children and space of registered tasks
  TaskList tasks_;
  SpinLock zone_scan_lock_;  // guards kZoneOomLocked of all zones
  SleepMutex oom_lock_;      // OomLock::kMachine; the reaper
  std::unique_ptr<OomReaper> reaper_;
  std::atomic<std::int64_t> kills_{0};
  std::atomic<bool> panicked_{false};
  mutable RawLock snapshots_mu_;
  std::vector<Snapshot> snapshots_;
};

// --- the right to decide ---

bool OomKiller2008::TryLockZones(std::span<Zone* const> zonelist) {
  if (mm_.policy.oom.lock == OomLock::kMachine) return oom_lock_.try_lock();
  SpinGuard guard(zone_scan_lock_);
  for (const Zone* zone : zonelist) {
    if (zone->Has(kZoneOomLocked)) return false;
  }
  for (Zone* zone : zonelist) zone->flags.fetch_or(kZoneOomLocked, std::memory_order_relaxed);
  return true;
}

void OomKiller2008::UnlockZones(std::span<Zone* const> zonelist) {
  if (mm_.policy.oom.lock == OomLock::kMachine) return oom_lock_.unlock();
  SpinGuard guard(zone_scan_lock_);
  for (Zone* zone : zonelist) {
    zone->flags.fetch_and(~std::uint32_t{kZoneOomLocked}, std::memory_order_relaxed);
  }
}

// --- the decision ---

void OomKiller2008::OutOfMemory(std::span<Zone* const> zonelist, Gfp gfp, int order) {
  if (mm_.policy.oom.panic_on_oom == 2) {
    Panic("out of memory. Compulsory panic_on_oom is selected.");
  } else {
    SpinGuard guard(tasklist_lock_);
    ChooseAndKillLocked(zonelist, {gfp, order});
  }
  // Give the victim a chance to die before this task asks for memory again.
  if (!Current().memdie.load(std::memory_order_acquire)) SleepFor(mm_.policy.Jiffy());
}

void OomKiller2008::ChooseAndKillLocked(std::span<Zone* const> zonelist, const Request& request) {
  TaskMm* self = PartOfLocked(Current().id);
  if (!CoversAllNodes(zonelist)) {
    if (self != nullptr) {
      KillChildOrSelfLocked(*self, 0, "No available memory (MPOL_BIND)", request);
    }
    return;
  }
  if (mm_.policy.oom.panic_on_oom == 1) return Panic("out of memory. panic_on_oom is selected");
  if (mm_.policy.oom.oom_kill_allocating_task && self != nullptr) {
    KillChildOrSelfLocked(*self, 0, "Out of memory (oom_kill_allocating_task)", request);
    return;
  }
  // A choice that cannot be killed after all leads to another look at the tasks; each such victim
  // has no space any more by then, so this ends.
  for (;;) {
    const OomChoice choice = SelectBadTask(mm_, tasks_);
    if (choice.kind == OomChoice::Kind::kWait) return;
    if (choice.kind == OomChoice::Kind::kNobody) {
      return Panic("Out of memory and no killable processes...");
    }
    if (KillChildOrSelfLocked(*choice.victim, choice.points, "Out of memory", request)) return;
    if (choice.victim->space != nullptr) return;  // a sharer forbids it; nothing will change
  }
}

bool OomKiller2008::OutOfMemoryIn(MemCgroup& group, Gfp gfp) {
  bool somebody = false;
  {
    SpinGuard guard(tasklist_lock_);
    somebody = ChooseInGroupLocked({.gfp = gfp, .order = 0, .full = &group});
  }
  if (somebody && !Current().memdie.load(std::memory_order_acquire)) {
    SleepFor(mm_.policy.Jiffy());
  }
  return somebody;
}

// False: nobody in the group can be killed.
bool OomKiller2008::ChooseInGroupLocked(const Request& request) {
  for (;;) {
    const OomChoice choice = SelectBadTask(mm_, tasks_, request.full);
    if (choice.kind == OomChoice::Kind::kWait) return true;
    if (choice.kind == OomChoice::Kind::kNobody) return false;
    if (KillChildOrSelfLocked(*choice.victim, choice.points, "Memory cgroup out of memory",
                              request)) {
      request.full->kills.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
    if (choice.victim->space != nullptr) return false;  // a sharer forbids it
  }
}

// Whether every node with memory has a zone in the list; otherwise a memory policy forbids the
// rest.
bool OomKiller2008::CoversAllNodes(std::span<Zone* const> zonelist) const {
  return std::ranges::all_of(mm_.nodes, [zonelist](const std::unique_ptr<PgData>& node) {
    return node->zones.empty() || std::ranges::any_of(zonelist, [&node](const Zone* zone) {
             return zone->node_position == node->position;
           });
  });
}

void OomKiller2008::Panic(const char* why) {
  if (panicked_.exchange(true)) return;
  mm_.dmesg->Print(absl::StrFormat("Kernel panic - not syncing: %s\n", why));
  mm_.engine.RequestStop();
}

bool OomKiller2008::KillChildOrSelfLocked(TaskMm& task, std::uint64_t points, const char* message,
                                          const Request& request) {
  if (mm_.dmesg->Ratelimit()) {
    mm_.dmesg->Print(ReportLocked(request));
  }
  if (task.exiting.load(std::memory_order_relaxed)) {
    task.task->memdie.store(true, std::memory_order_release);
    return true;
  }
  mm_.dmesg->Print(absl::StrFormat("%s: kill process %d (%s) score %u or a child\n", message,
                                   task.task->id.n, CommOf(*task.task), points));
  for (const Task* child : task.children) {
    TaskMm* part = PartOfLocked(child->id);
    if (part == nullptr || part->space == task.space) continue;
    if (!IsWithin(mm_, *part, request.full)) continue;
    if (KillLocked(*part)) return true;
  }
  return KillLocked(task);
}

std::string OomKiller2008::ReportLocked(const Request& request) {
  const TaskMm* self = PartOfLocked(Current().id);
  std::string report =
      OomHeader(mm_, Current(), self == nullptr ? 0 : self->oom_adj, request.gfp, request.order);
  if (request.full == nullptr) {
    report += MemInfoReport(mm_);
  } else {
    const MemCgroup& own = self == nullptr || self->space == nullptr
                               ? *request.full
                               : *mm_.cgroups->GroupOf(*self->space);
    report += CgroupReport(mm_, own, *request.full);
  }
  if (mm_.policy.oom.oom_dump_tasks) report += TaskTable(mm_, tasks_);
  return report;
}

bool OomKiller2008::KillLocked(TaskMm& task) {
  if (task.space == nullptr || task.is_init) return false;
  for (const auto& [id, other] : tasks_) {
    if (other->space == task.space && other->oom_adj == kOomDisable) return false;
  }
  NoteKill(task);
  mm_.dmesg->Print(
      absl::StrFormat("Killed process %d (%s)\n", task.task->id.n, CommOf(*task.task)));
  mm_.engine.Kill(*task.task, /*memdie=*/true);
  if (reaper_ != nullptr) reaper_->Queue(task.task->id, CommOf(*task.task));
  for (const auto& [id, other] : tasks_) {
    if (other != &task && other->space == task.space) {
      mm_.engine.Kill(*other->task, /*memdie=*/false);
    }
  }
  return true;
}

void OomKiller2008::NoteKill(const TaskMm& victim) {
  kills_.fetch_add(1);
  mm_.vmstat->Count(VmEvent::kOomKill);
  Snapshot snapshot;
  snapshot.time_ns = Now().n;
  const Reclaimer::Peaks peaks = mm_.reclaimer->PeaksNow();
  snapshot.isolated = peaks.isolated;
  snapshot.reclaimers = peaks.reclaimers;
  for (const auto& zone : mm_.zones) snapshot.lru += mm_.reclaimer->LruPages(*zone);
  snapshot.free = mm_.vmstat->Global(ZoneStat::kNrFreePages);
  snapshot.victim = absl::StrFormat("%s-%d", CommOf(*victim.task), victim.task->id.n);
  std::lock_guard guard(snapshots_mu_);
  if (snapshots_.size() < kSnapshotsMax) snapshots_.push_back(std::move(snapshot));
}

void OomKiller2008::AllocationFailure(Gfp gfp, int order) {
  if ((gfp & __GFP_NOWARN) != 0 || !mm_.dmesg->Ratelimit()) return;
  mm_.dmesg->Print(AllocationFailureHeader(mm_, Current(), gfp, order) + MemInfoReport(mm_));
}

// --- the task list ---

TaskMm* OomKiller2008::PartOfLocked(TaskId id) {
  const auto found = tasks_.find(id.n);
  return found == tasks_.end() ? nullptr : found->second;
}

void OomKiller2008::AddTask(TaskMm& task) {
  SpinGuard guard(tasklist_lock_);
  const bool added = tasks_.emplace(task.task->id.n, &task).second;
  PS_CHECK(added, "a task was registered twice");
  TaskMm* parent = PartOfLocked(task.parent);
  if (parent == nullptr) return;
  // In order of fork, which is not that in which the children first run.
  auto& siblings = parent->children;
  siblings.insert(std::ranges::upper_bound(siblings, task.task->id.n, {},
                                           [](const Task* child) { return child->id.n; }),
                  task.task);
}

void OomKiller2008::RemoveTask(TaskMm& task) {
  SpinGuard guard(tasklist_lock_);
  PS_CHECK(tasks_.erase(task.task->id.n) == 1, "a task was removed that is not registered");
  task.exiting.store(true, std::memory_order_relaxed);
  if (TaskMm* parent = PartOfLocked(task.parent)) std::erase(parent->children, task.task);
  task.children.clear();
}

MmStruct* OomKiller2008::TakeSpace(TaskMm& task) {
  SpinGuard guard(tasklist_lock_);
  task.exiting.store(true, std::memory_order_relaxed);
  return std::exchange(task.space, nullptr);
}

MmStruct* OomKiller2008::Pin(TaskId id) {
  SpinGuard guard(tasklist_lock_);
  const TaskMm* part = PartOfLocked(id);
  if (part == nullptr || part->space == nullptr) return nullptr;
  mm_.spaces->Pin(*part->space);
  return part->space;
}

void OomKiller2008::StartDaemons() {
  if (reaper_ == nullptr) return;
  mm_.engine.Spawn({.name = "oom_reaper", .daemon = true}, [this] { reaper_->Run(); });
}

std::vector<OomKiller::Snapshot> OomKiller2008::snapshots() const {
  std::lock_guard guard(snapshots_mu_);
  return snapshots_;
}

}  // namespace

std::unique_ptr<OomKiller> MakeOomKiller(MemoryManager& mm) {
  return std::make_unique<OomKiller2008>(mm);
}

}  // namespace pagestorm::mm
