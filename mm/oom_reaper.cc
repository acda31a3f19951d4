#include "mm/oom_reaper.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_format.h"
#include "mm/address_space.h"
#include "mm/dmesg.h"

namespace pagestorm::mm {

// A space that stays for a scope, or none.
class OomReaper::Pinned {
 public:
  Pinned(OomReaper& reaper, TaskId victim) : mm_(reaper.mm_), space_(reaper.pin_(victim)) {}
  ~Pinned() {
    if (space_ != nullptr) mm_.spaces->Destroy(space_);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  [[nodiscard]] MmStruct* get() const { return space_; }

 private:
  MemoryManager& mm_;
  MmStruct* const space_;
};

OomReaper::OomReaper(MemoryManager& mm, SleepMutex& oom_lock, std::function<MmStruct*(TaskId)> pin)
    : mm_(mm),
      oom_lock_(oom_lock),
      pin_(std::move(pin)),
      mu_(mm.engine.kind()),
      work_(mm.engine, "oom_reaper: no victim") {}

void OomReaper::Queue(TaskId victim, std::string comm) {
  {
    std::lock_guard guard(mu_);
    victims_.push_back({victim, std::move(comm)});
  }
  work_.WakeOne();
}

bool OomReaper::Take(Victim& victim) {
  std::lock_guard guard(mu_);
  if (victims_.empty()) return false;
  victim = std::move(victims_.front());
  victims_.pop_front();
  return true;
}

void OomReaper::Run() {
  for (;;) {
    Victim victim;
    work_.Wait([&] { return Take(victim); });
    Reap(victim);
  }
}

void OomReaper::Reap(const Victim& victim) {
  for (int attempt = 0; attempt < kRetries; ++attempt) {
    if (attempt > 0) SleepFor(kBetween);
    // Before the space is pinned: a victim that has exited meanwhile leaves its pages to us, and
    // nobody must take them for lost and kill once more.
    SleepGuard guard(oom_lock_);
    const Pinned space(*this, victim.id);
    if (space.get() == nullptr || TryOnce(victim, *space.get())) return;
  }
  const Pinned space(*this, victim.id);
  if (space.get() != nullptr) mm_.spaces->SkipForOom(*space.get());
}

bool OomReaper::TryOnce(const Victim& victim, MmStruct& space) {
  if (!mm_.spaces->Reap(space)) return false;
  mm_.dmesg->Print(absl::StrFormat(
      "oom_reaper: reaped process %d (%s), now anon-rss:%dkB, file-rss:%dkB, shmem-rss:%dkB\n",
      victim.id.n, victim.comm, ToKiB({mm_.spaces->UsageOf(space).rss}, mm_.page_shift()), 0, 0));
  mm_.spaces->SkipForOom(space);
  return true;
}

}  // namespace pagestorm::mm
