#include "bench/workloads/hackbench.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <vector>

#include "bench/workloads/channel.h"
#include "bench/workloads/stamp.h"

namespace pagestorm::bench {
namespace {

enum Param {
  kGroups,
  kFan,
  kLoops,
  kDatasize,
  kMode,
  kChannel,
  kBatch,
  kHotPages,
  kColdPages,
  kSharedPages,
  kAreas,
  kPageTables,
  kSlabPages,
  kStackOrder,
  kMessageBytes,
  kQueueMessages,
  kSendNs,
  kReceiveNs,
};

class Hackbench final : public Workload {
 public:
  [[nodiscard]] std::string_view name() const override { return "hackbench"; }
  std::vector<WorkloadParam>& params() override { return params_; }
  absl::Status Validate(const MachineFacts& machine) override;
  [[nodiscard]] std::int64_t max_tasks() const override { return workers_ + 1; }
  [[nodiscard]] std::int64_t max_sharers() const override {
    return Value(kMode) == 0 ? max_tasks() : 2;  // threads share their process's address space
  }
  void Main(Process& self) override;
  [[nodiscard]] WorkloadReport Report() override;
  [[nodiscard]] Headline headline() const override { return {"time_ns", false}; }
  [[nodiscard]] int progress_permille() const override {
    if (events_total_ == 0) return 0;
    return static_cast<int>(events_.load(std::memory_order_relaxed) * 1000 / events_total_);
  }

 private:
  // One worker's memory and its proof that nothing was lost.
  struct Memory {
    std::uint32_t first = 0;   // of a thread's own area
    std::int64_t writes = 0;   // of every hot page
    std::int64_t checked = 0;  // rotates over the hot pages
  };

  [[nodiscard]] std::int64_t Value(Param param) const {
    return params_[static_cast<std::size_t>(param)].value;
  }
  [[nodiscard]] KernelFootprint Kernel() const {
    return {.page_tables = static_cast<int>(Value(kPageTables)),
            .slab_pages = static_cast<int>(Value(kSlabPages)),
            .stack_order = static_cast<int>(Value(kStackOrder))};
  }
  // The areas of a process go round: page 0 lies in the first, page 1 in the second.
  [[nodiscard]] std::uint32_t PageOf(const Memory& memory, std::int64_t page) const {
    if (Value(kMode) != 0) return memory.first + static_cast<std::uint32_t>(page);
    const auto areas = static_cast<std::int64_t>(image_.size());
    return image_[static_cast<std::size_t>(page % areas)] +
           static_cast<std::uint32_t>(page / areas);
  }
  void MapImage(Process& self);
  bool ForkGroup(Process& self, std::int64_t group);
  bool ForkWorker(Process& self, std::int64_t group, std::int64_t number, bool sender);
  void Worker(Process& self, std::int64_t worker, std::int64_t group, std::int64_t number,
              bool sender);
  void Touch(Process& self, std::int64_t worker, Memory& memory);
  void Send(Process& self, std::int64_t worker, std::int64_t group, Memory& memory);
  void Receive(Process& self, std::int64_t worker, Channel& channel, Memory& memory);
  Channel& ChannelOf(std::int64_t group, std::int64_t number) {
    return *channels_[static_cast<std::size_t>(group * Value(kFan) + number)];
  }

  std::vector<WorkloadParam> params_{
      {"groups", "groups of senders and receivers", 10, 1, 100'000},
      {"fan", "senders, and receivers, in a group", 20, 1, 1000},
      {"loops", "messages each sender writes to each channel of its group", 100, 1, 1'000'000},
      {"datasize", "bytes of one message", 100, 1, 1'000'000},
      {"mode", "children as processes or as threads of one", 0, 0, 1, {"process", "thread"}},
      {"channel", "what messages travel through", 0, 0, 1, {"socket", "pipe"}},
      {"batch", "messages a task moves in one go: 1 is exact, more is faster on the host", 1, 1,
       100'000},
      {"hot_pages", "private pages a task touches with every batch", 6, 1, 10'000},
      {"cold_pages", "private pages a task writes once, after the fork", 6, 0, 10'000},
      {"shared_pages", "pages of the parent a child only reads", 4, 0, 10'000},
      {"areas", "areas a process has its pages in (stack, data, heap), an anon_vma each", 3, 1,
       100},
      {"page_tables", "page-table pages of a task", 5, 0, 1000},
      {"slab_pages", "slab pages of a task", 1, 0, 1000},
      {"stack_order", "order of a task's kernel stack", 0, 0, 3},
      {"message_bytes", "kernel memory of one queued message", 512, 1, 1'000'000},
      {"queue_messages",
       "messages a channel holds before its writers block; 0: by datasize and channel", 0, 0,
       1'000'000},
      {"send_ns", "CPU time to send one message", 3300, 0, 10'000'000},
      {"receive_ns", "CPU time to receive one message", 3300, 0, 10'000'000},
  };
  std::int64_t workers_ = 0;
  std::int64_t events_total_ = 0;
  ChannelSpec channel_spec_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::unique_ptr<WaitQueue> ready_queue_;
  std::unique_ptr<WaitQueue> wake_queue_;
  std::atomic<std::int64_t> ready_{0};
  std::atomic<bool> wake_{false};
  std::atomic<bool> died_early_{false};
  std::atomic<std::int64_t> events_{0};
  std::atomic<std::int64_t> messages_read_{0};
  std::atomic<std::int64_t> lost_{0};
  std::vector<std::uint32_t> image_;  // first page of each area
  std::int64_t forked_ = 0;
  std::int64_t abnormal_ = 0;
  bool fork_failed_ = false;
  bool timed_ = false;  // the wake byte was written
  bool finished_ = false;
  Ns fork_time_;
  Ns elapsed_;
};

absl::Status Hackbench::Validate(const MachineFacts& machine) {
  workers_ = 2 * Value(kFan) * Value(kGroups);
  const std::int64_t batches = (Value(kLoops) + Value(kBatch) - 1) / Value(kBatch);
  events_total_ = 2 * Value(kFan) * Value(kFan) * Value(kGroups) * batches;
  const std::int64_t page_bytes = std::int64_t{1} << machine.page_shift.n;
  channel_spec_ = {.limit_messages = Value(kQueueMessages),
                   .message_bytes = Value(kMessageBytes),
                   .page_bytes = page_bytes};
  if (channel_spec_.limit_messages == 0) {
    // Socket: send buffer 124928 bytes, charged 357 a message of 100 (data rounded up to a pointer,
    // plus the socket buffer's header; spec throttle-2.6.26 3.6). Pipe: 16 pages of data.
    constexpr std::int64_t kSendBuffer = 124'928;
    constexpr std::int64_t kHeader = 253;
    const std::int64_t charge = (Value(kDatasize) + 7) / 8 * 8 + kHeader;
    channel_spec_.limit_messages =
        Value(kChannel) == 0 ? kSendBuffer / charge
                             : 16 * std::max<std::int64_t>(1, page_bytes / Value(kDatasize));
    channel_spec_.limit_messages = std::max<std::int64_t>(1, channel_spec_.limit_messages);
  }
  if (Value(kBatch) > channel_spec_.limit_messages) {
    return absl::InvalidArgumentError(
        "workload.batch = " + std::to_string(Value(kBatch)) + " does not fit a channel of " +
        std::to_string(channel_spec_.limit_messages) + " messages (workload.queue_messages)");
  }
  return absl::OkStatus();
}

void Hackbench::Main(Process& self) {
  Engine& engine = CurrentEngine();
  ready_queue_ = std::make_unique<WaitQueue>(engine, "hackbench's ready bytes");
  wake_queue_ = std::make_unique<WaitQueue>(engine, "hackbench's wake byte");
  MapImage(self);
  const Ns start = Now();
  for (std::int64_t group = 0; group < Value(kGroups) && !fork_failed_; ++group) {
    fork_failed_ = !ForkGroup(self, group);
  }
  // A child that dies before it is ready would keep the parent waiting for its byte for ever; the
  // real program hangs there, which helps nobody: here the parent notices.
  if (!fork_failed_) {
    ready_queue_->Wait([&] { return ready_.load() == workers_ || died_early_.load(); },
                       {.interruptible = true});
  }
  const Ns released = Now();
  fork_time_ = released - start;
  if (!fork_failed_ && ready_.load() == workers_) {
    timed_ = true;
    wake_.store(true);
    wake_queue_->WakeAll();
  } else {
    self.KillChildren();
  }
  while (self.children() > 0) {
    if (self.WaitChild()) continue;
    if (abnormal_++ == 0) self.KillChildren();  // the program fails; nobody waits for its orphans
  }
  elapsed_ = Now() - released;
  finished_ = timed_ && abnormal_ == 0;
  for (auto& channel : channels_) channel->Close();
}

// What every child inherits.
void Hackbench::MapImage(Process& self) {
  const std::int64_t pages = Value(kHotPages) + Value(kColdPages) + Value(kSharedPages);
  const std::int64_t areas = Value(kMode) == 0 ? std::min(Value(kAreas), pages) : 1;
  for (std::int64_t area = 0; area < areas; ++area) {
    image_.push_back(self.MapAnon((pages - area + areas - 1) / areas));
  }
  Memory own{.first = image_.front()};
  for (std::int64_t page = 0; page < pages; ++page) {
    self.Write(PageOf(own, page), StampOf(0, page, 0));
  }
}

bool Hackbench::ForkGroup(Process& self, std::int64_t group) {
  for (std::int64_t i = 0; i < Value(kFan); ++i) {
    const auto number = static_cast<std::int64_t>(channels_.size()) + 1;
    channels_.push_back(std::make_unique<Channel>(self.memory(), channel_spec_, number));
    if (!ForkWorker(self, group, i, /*sender=*/false)) return false;
  }
  for (std::int64_t i = 0; i < Value(kFan); ++i) {
    if (!ForkWorker(self, group, i, /*sender=*/true)) return false;
  }
  return true;
}

bool Hackbench::ForkWorker(Process& self, std::int64_t group, std::int64_t number, bool sender) {
  const std::int64_t worker = ++forked_;
  Process* child = self.Fork(
      "hackbench", Kernel(),
      [this, worker, group, number, sender](Process& me) {
        Worker(me, worker, group, number, sender);
      },
      Value(kMode) == 0 ? CloneKind::kProcess : CloneKind::kThread);
  return child != nullptr;
}

void Hackbench::Worker(Process& self, std::int64_t worker, std::int64_t group, std::int64_t number,
                       bool sender) {
  struct Unready {  // this worker ends without having been ready
    Hackbench& bench;
    bool dismissed = false;
    ~Unready() {
      if (dismissed) return;
      bench.died_early_.store(true);
      bench.ready_queue_->WakeAll();
    }
  } unready{*this};
  self.JoinCgroup(group);
  Memory memory;
  const std::int64_t private_pages = Value(kHotPages) + Value(kColdPages);
  if (Value(kMode) == 0) {
    // The parent's image; writing breaks copy-on-write.
    for (std::int64_t page = 0; page < Value(kSharedPages); ++page) {
      self.Read(PageOf(memory, private_pages + page));
    }
  } else {
    memory.first = self.MapAnon(private_pages);  // its stack and arena
  }
  for (std::int64_t page = 0; page < private_pages; ++page) {
    self.Write(PageOf(memory, page), StampOf(worker, page, 0));
  }
  unready.dismissed = true;
  if (ready_.fetch_add(1) + 1 == workers_) ready_queue_->WakeAll();
  wake_queue_->Wait([&] { return wake_.load(); }, {.interruptible = true});
  ReturnToUser();
  if (sender) {
    Send(self, worker, group, memory);
  } else {
    Receive(self, worker, ChannelOf(group, number), memory);
  }
}

// The pages a batch touches: all hot ones are written, one of them (in turn) is read back first.
void Hackbench::Touch(Process& self, std::int64_t worker, Memory& memory) {
  const std::int64_t check = memory.checked;
  memory.checked = (check + 1) % Value(kHotPages);
  if (!self.Holds(PageOf(memory, check), StampOf(worker, check, memory.writes))) {
    lost_.fetch_add(1);
  }
  ++memory.writes;
  for (std::int64_t page = 0; page < Value(kHotPages); ++page) {
    self.Write(PageOf(memory, page), StampOf(worker, page, memory.writes));
  }
  events_.fetch_add(1, std::memory_order_relaxed);
}

void Hackbench::Send(Process& self, std::int64_t worker, std::int64_t group, Memory& memory) {
  for (std::int64_t sent = 0; sent < Value(kLoops); sent += Value(kBatch)) {
    const std::int64_t count = std::min(Value(kBatch), Value(kLoops) - sent);
    for (std::int64_t i = 0; i < Value(kFan); ++i) {
      Touch(self, worker, memory);
      Charge({Value(kSendNs) * count});
      ChannelOf(group, i).Send(count);
      ReturnToUser();
    }
  }
}

void Hackbench::Receive(Process& self, std::int64_t worker, Channel& channel, Memory& memory) {
  std::int64_t left = Value(kFan) * Value(kLoops);
  while (left > 0) {
    const std::int64_t count = channel.Receive(std::min(left, Value(kBatch)));
    Charge({Value(kReceiveNs) * count});
    Touch(self, worker, memory);
    ReturnToUser();
    left -= count;
    messages_read_.fetch_add(count, std::memory_order_relaxed);
  }
}

WorkloadReport Hackbench::Report() {
  WorkloadReport report;
  char line[64];
  report.out.push_back("Running with " + std::to_string(Value(kGroups)) + "*" +
                       std::to_string(2 * Value(kFan)) + " (== " + std::to_string(workers_) +
                       ") tasks.");
  if (finished_) {
    std::snprintf(line, sizeof line, "Time: %lld.%03lld",
                  static_cast<long long>(elapsed_.n / kSecond.n),
                  static_cast<long long>(elapsed_.n / kMillisecond.n % 1000));
    report.out.emplace_back(line);
  }
  report.numbers = {{"groups", Value(kGroups)},
                    {"tasks", workers_},
                    {"exit_status", finished_ ? 0 : 1},
                    {"children_killed", abnormal_},
                    {"fork_failed", fork_failed_ ? 1 : 0},
                    {"killed_while_timed", timed_ && abnormal_ > 0 ? 1 : 0},
                    {"time_ns", finished_ ? elapsed_.n : -1},
                    {"fork_ns", fork_time_.n},
                    {"ended_after_ns", elapsed_.n},
                    {"messages", messages_read_.load()},
                    {"pages_lost", lost_.load()}};
  FailIfLost(report, lost_.load());
  if (report.ok && finished_ &&
      messages_read_.load() != Value(kFan) * Value(kFan) * Value(kGroups) * Value(kLoops)) {
    report.ok = false;
    report.failure = "messages were lost";
  }
  return report;
}

}  // namespace

std::unique_ptr<Workload> MakeHackbench() { return std::make_unique<Hackbench>(); }

}  // namespace pagestorm::bench
