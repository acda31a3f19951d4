#include "bench/workloads/channel.h"

#include <algorithm>
#include <mutex>

#include "core/engine.h"
#include "mm/kernel_memory.h"

namespace pagestorm::bench {

Channel::Channel(mm::MemoryManager& mm, const ChannelSpec& spec, std::int64_t number)
    : mm_(mm),
      spec_(spec),
      mu_(mm.engine.kind()),
      readers_(mm.engine, "an empty channel", number),
      writers_(mm.engine, "a full channel", number) {}

std::int64_t Channel::PagesFor(std::int64_t messages) const {
  return (messages * spec_.message_bytes + spec_.page_bytes - 1) / spec_.page_bytes;
}

std::int64_t Channel::Reserve(std::int64_t count) {
  std::lock_guard guard(mu_);
  const std::int64_t granted = std::min(count, spec_.limit_messages - queued_ - reserved_);
  if (granted <= 0) return 0;
  reserved_ += granted;
  return granted;
}

std::int64_t Channel::Take(std::int64_t count) {
  std::lock_guard guard(mu_);
  const std::int64_t taken = std::min(count, queued_);
  queued_ -= taken;
  return taken;
}

void Channel::Fulfil(std::int64_t granted) {
  struct Promise {
    Channel& channel;
    std::int64_t messages;
    ~Promise() {
      if (messages == 0) return;
      {
        std::lock_guard guard(channel.mu_);
        channel.reserved_ -= messages;
      }
      channel.writers_.WakeOne();
    }
  } promise{*this, granted};
  // The buffers: allocated before the queue is touched, may reclaim and sleep.
  for (;;) {
    {
      std::lock_guard guard(mu_);
      if (frames_.size() >= static_cast<std::size_t>(PagesFor(queued_ + reserved_))) break;
    }
    const auto frame = mm::AllocKernelPage(mm_);
    if (frame) {
      std::lock_guard guard(mu_);
      frames_.push_back(*frame);
    }
    ReturnToUser();  // a killed writer leaves here; its signal also explains a failed allocation
  }
  {
    std::lock_guard guard(mu_);
    queued_ += granted;
    reserved_ -= granted;
    promise.messages = 0;
  }
  readers_.WakeOne();
}

void Channel::Send(std::int64_t count) {
  while (count > 0) {
    std::int64_t granted = 0;
    writers_.Wait([&] { return (granted = Reserve(count)) > 0; },
                  {.exclusive = true, .interruptible = true});
    Fulfil(granted);
    count -= granted;
  }
}

bool Channel::TrySend(std::int64_t count) {
  const std::int64_t granted = Reserve(count);
  if (granted > 0) Fulfil(granted);
  return granted > 0;
}

std::int64_t Channel::Receive(std::int64_t count) {
  std::int64_t taken = 0;
  readers_.Wait([&] { return (taken = Take(count)) > 0; },
                {.exclusive = true, .interruptible = true});
  AfterTake();
  return taken;
}

std::int64_t Channel::TryReceive(std::int64_t count) {
  const std::int64_t taken = Take(count);
  if (taken > 0) AfterTake();
  return taken;
}

void Channel::AfterTake() {
  std::int64_t keep;
  {
    std::lock_guard guard(mu_);
    keep = PagesFor(queued_ + reserved_);
  }
  FreeTo(keep);
  writers_.WakeOne();
}

void Channel::Close() {
  {
    std::lock_guard guard(mu_);
    queued_ = 0;
  }
  FreeTo(0);
}

void Channel::FreeTo(std::int64_t pages) {
  for (;;) {
    mm::FrameNo frame;
    {
      std::lock_guard guard(mu_);
      if (static_cast<std::int64_t>(frames_.size()) <= pages) return;
      frame = frames_.back();
      frames_.pop_back();
    }
    mm::FreeKernelPage(mm_, frame);
  }
}

}  // namespace pagestorm::bench
