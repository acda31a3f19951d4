#include "mm/disk.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "mm/swap.h"
#include "mm/writeback.h"

namespace pagestorm::mm {

Disk::Disk(Engine& engine, const DiskConfig& config, const MmCosts& costs, PageShift shift,
           bool submission_blocks, Ns batch_time, std::function<void(IoDirection)> released)
    : config_(config),
      costs_(costs),
      shift_(shift),
      submission_blocks_(submission_blocks),
      released_(std::move(released)),
      pool_(engine, config.nr_requests, batch_time),
      work_(engine, "disk: nothing queued"),
      queue_lock_(engine, LockRank::kRequestQueue, "queue_lock"),
      elevator_({.max_request_pages =
                     std::max<std::int64_t>(1, PagesFromBytes(config.max_request_bytes, shift).n),
                 .read_slice = {config.read_slice_ns},
                 .write_slice = {config.write_slice_ns}}) {}

Disk::~Disk() = default;

void Disk::Submit(IoDirection direction, std::uint64_t sector_page, FrameNo frame) {
  Charge({costs_.submit_io_ns});
  bool gone = false;
  {
    SpinGuard guard(queue_lock_);
    gone = gone_;
    if (!gone && elevator_.Merge(direction, sector_page, frame)) return;
  }
  if (!gone) {
    if (submission_blocks_) {
      pool_.Take(direction);
    } else {
      pool_.TakeWithoutSleeping(direction);
    }
    SpinGuard guard(queue_lock_);
    gone = gone_;
    if (gone) {
      pool_.Release(direction);
    } else {
      elevator_.Add(direction, sector_page, frame, Now());
      queued_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  if (gone) {
    on_complete(direction, sector_page, frame);  // the machine is shutting down
  } else {
    work_.WakeOne();
  }
}

Ns Disk::ServiceTime(const IoRequest& request) const {
  const std::int64_t bytes = ToBytes({static_cast<std::int64_t>(request.frames.size())}, shift_);
  // At most 2^40 bytes a request: the product stays far below 2^63 only in this order.
  const std::int64_t transfer =
      bytes * 1'000'000 / config_.bytes_per_second * 1'000 +
      bytes * 1'000'000 % config_.bytes_per_second * 1'000 / config_.bytes_per_second;
  return {transfer + (request.first == head_ ? 0 : config_.positioning_ns)};
}

// On every way out of the device's task: nothing stays locked or under writeback.
class Disk::Shutdown {
 public:
  explicit Shutdown(Disk& disk) : disk_(disk) {}
  ~Shutdown() { disk_.CompleteAll(); }
  Shutdown(const Shutdown&) = delete;
  Shutdown& operator=(const Shutdown&) = delete;

 private:
  Disk& disk_;
};

void Disk::Run() {
  PS_CHECK(on_complete != nullptr, "nobody receives this disk's completions");
  Shutdown shutdown(*this);
  for (;;) {
    work_.Wait([this] { return queued_.load(std::memory_order_relaxed) > 0; });
    while (TakeNext()) Serve();
  }
}

bool Disk::TakeNext() {
  SpinGuard guard(queue_lock_);
  active_ = elevator_.Next(Now());
  if (!active_) return false;
  queued_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

void Disk::Serve() {
  const Ns service = ServiceTime(*active_);
  const std::int64_t start = std::max(busy_until_, active_->arrived.n);
  busy_until_ = start + service.n;
  requests_.fetch_add(1, std::memory_order_relaxed);
  pages_.fetch_add(static_cast<std::int64_t>(active_->frames.size()), std::memory_order_relaxed);
  if (active_->first != head_) seeks_.fetch_add(1, std::memory_order_relaxed);
  busy_ns_.fetch_add(service.n, std::memory_order_relaxed);
  head_ = active_->end();
  const std::int64_t left = busy_until_ - Now().n;
  if (left > 0) SleepFor({left});
  const IoRequest done = std::move(*active_);
  active_.reset();
  Complete(done);
}

void Disk::Complete(const IoRequest& request) {
  for (std::size_t i = 0; i < request.frames.size(); ++i) {
    Charge({costs_.complete_io_ns});
    on_complete(request.direction, request.first + i, request.frames[i]);
  }
  if (pool_.Release(request.direction) && released_) released_(request.direction);
}

void Disk::CompleteAll() {
  if (active_) Complete(*active_);
  active_.reset();
  for (;;) {
    std::optional<IoRequest> next;
    {
      SpinGuard guard(queue_lock_);
      gone_ = true;
      next = elevator_.Next(Now());
    }
    if (!next) return;
    Complete(*next);
  }
}

bool Disk::Congested(IoDirection direction) const { return pool_.congested(direction); }

std::int64_t Disk::InFlight(IoDirection direction) const { return pool_.outstanding(direction); }

BlockDevice::Counts Disk::counts() const {
  return {requests_.load(std::memory_order_relaxed),
          pages_.load(std::memory_order_relaxed),
          seeks_.load(std::memory_order_relaxed),
          {busy_ns_.load(std::memory_order_relaxed)}};
}

std::string Disk::Describe() const {
  std::string text;
  for (const IoDirection direction : {IoDirection::kRead, IoDirection::kWrite}) {
    text += std::string("  disk: ") + std::to_string(pool_.outstanding(direction)) +
            (direction == IoDirection::kRead ? " read" : " write") + " requests outstanding, " +
            std::to_string(pool_.sleepers(direction)) + " tasks wait for a request" +
            (pool_.congested(direction) ? ", congested\n" : "\n");
  }
  return text;
}

std::unique_ptr<BlockDevice> MakeDisk(MemoryManager& mm) {
  constexpr std::int64_t kBatchTimesASecond = 50;
  auto disk = std::make_unique<Disk>(
      mm.engine, mm.config.disk, mm.costs, mm.page_shift(), mm.policy.reclaim.submission_blocks,
      Ns{kSecond.n / kBatchTimesASecond},
      [&mm](IoDirection direction) { mm.writeback->NoteReleased(direction); });
  disk->on_complete = [&mm](IoDirection direction, std::uint64_t sector, FrameNo n) {
    mm.swap->OnComplete(direction, static_cast<SwapSlot>(sector), n);
  };
  return disk;
}

}  // namespace pagestorm::mm
