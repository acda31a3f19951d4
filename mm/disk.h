// The rotating disk behind BlockDevice: request pool, elevator, service time, and the device's
// task.
//
// A transfer takes its bytes at the sequential rate, plus the positioning time unless it continues
// where the last one ended. The disk serves one request at a time and starts the next when the last
// one ended, so the task's own latency costs no disk time.
// Locks: queue_lock_ (kRequestQueue) over the elevator; the pool has its own host lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "core/spin_lock.h"
#include "core/wait_queue.h"
#include "mm/block_device.h"
#include "mm/elevator.h"
#include "mm/request_pool.h"

namespace pagestorm::mm {

class Disk final : public BlockDevice {
 public:
  // released: called when a request was given back with its direction below the off threshold.
  Disk(Engine& engine, const DiskConfig& config, const MmCosts& costs, PageShift shift,
       bool submission_blocks, Ns batch_time, std::function<void(IoDirection)> released);
  ~Disk() override;

  void Submit(IoDirection direction, std::uint64_t sector_page, FrameNo frame) override;
  [[nodiscard]] bool Congested(IoDirection direction) const override;
  [[nodiscard]] std::int64_t InFlight(IoDirection direction) const override;
  [[nodiscard]] std::string Describe() const override;
  void Run() override;

  // What a request costs when the disk's head is where the last one ended.
  [[nodiscard]] Ns ServiceTime(const IoRequest& request) const;
  [[nodiscard]] Counts counts() const override;

 private:
  class Shutdown;

  void Serve();
  void Complete(const IoRequest& request);
  void CompleteAll();
  bool TakeNext();

  const DiskConfig config_;
  const MmCosts& costs_;
  const PageShift shift_;
  const bool submission_blocks_;
  const std::function<void(IoDirection)> released_;
  RequestPool pool_;
  WaitQueue work_;

  SpinLock queue_lock_;  // guards what is declared down to the next blank line
  Elevator elevator_;
  bool gone_ = false;  // the device's task has ended: I/O completes at once

  std::atomic<std::int64_t> queued_{0};  // requests in the elevator
  std::atomic<std::int64_t> requests_{0};
  std::atomic<std::int64_t> pages_{0};
  std::atomic<std::int64_t> seeks_{0};
  std::atomic<std::int64_t> busy_ns_{0};

  // Of the device's task.
  std::optional<IoRequest> active_;
  std::uint64_t head_ = 0;
  std::int64_t busy_until_ = 0;
};

}  // namespace pagestorm::mm
