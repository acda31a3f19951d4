#include "bench/workloads/filestorm.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "bench/workloads/stamp.h"
#include "core/histogram.h"
#include "mm/dirty.h"
#include "mm/file_io.h"
#include "mm/flusher.h"
#include "mm/page_cache.h"
#include "mm/vmstat.h"

namespace pagestorm::bench {
namespace {

enum Param {
  kReaders,
  kReadMib,
  kReadPasses,
  kWriters,
  kWriteMib,
  kWritePasses,
  kHotPercent,
  kHotMs
};

constexpr std::int64_t kReadFile = 0;  // number of the readers' file; writer i has i + 1
constexpr std::int64_t kHotSet = -1;

class Filestorm final : public Workload {
 public:
  [[nodiscard]] std::string_view name() const override { return "filestorm"; }
  std::vector<WorkloadParam>& params() override { return params_; }
  absl::Status Validate(const MachineFacts& machine) override;
  [[nodiscard]] std::int64_t max_tasks() const override {
    return Value(kReaders) + Value(kWriters) + 2;
  }
  void Main(Process& self) override;
  [[nodiscard]] WorkloadReport Report() override;
  [[nodiscard]] int progress_permille() const override {
    return total_ == 0 ? 0
                       : static_cast<int>(done_.load(std::memory_order_relaxed) * 1000 / total_);
  }

 private:
  // What one task leaves behind; written by it alone.
  struct Slot {
    Histogram access_ns;
    std::int64_t lost = 0;
    bool finished = false;
  };

  [[nodiscard]] std::int64_t Value(Param param) const { return params_[param].value; }
  [[nodiscard]] std::int64_t PagesOf(Param mib) const { return (Value(mib) << 20) >> shift_; }
  void CreateFiles(mm::MemoryManager& mm);
  void StartAll(Process& self);
  void Reader(Process& self, Slot& slot, std::int64_t number);
  void Writer(Process& self, Slot& slot, std::int64_t number);
  void Hot(Process& self, Slot& slot);
  bool ReadPage(Process& self, Slot& slot, mm::OpenFile& open, std::uint32_t page,
                std::uint64_t expected);
  void WriteOnce(Process& self, Slot& slot, mm::OpenFile& open, std::int64_t number,
                 std::int64_t pass);
  void NoteCounters(mm::MemoryManager& mm);

  std::vector<WorkloadParam> params_{
      {"readers", "processes that stream through the one large file", 1, 0, 10'000},
      {"read_mib", "size of that file, MiB; 0: 1.5 x memory", 0, 0, 1 << 24},
      {"read_passes", "times each reader reads it all", 1, 1, 1000},
      {"writers", "processes that overwrite a file each", 1, 0, 10'000},
      {"write_mib", "size of each of those, MiB; 0: a quarter of memory over all of them", 0, 0,
       1 << 24},
      {"write_passes", "times each writer writes its file, reading it back at the end", 2, 1, 1000},
      {"hot_percent", "anonymous pages that one process keeps touching, percent of memory; 0: none",
       25, 0, 90},
      {"hot_ms", "pause between two rounds over them, emulated ms", 50, 0, 1'000'000},
  };
  int shift_ = 12;
  std::int64_t hot_pages_ = 0;
  std::int64_t total_ = 0;  // file pages to read and write
  std::vector<mm::File*> files_;
  std::vector<Slot> readers_;
  std::vector<Slot> writers_;
  Slot hot_;
  std::atomic<std::int64_t> streaming_{0};  // readers and writers that have not ended
  std::atomic<std::int64_t> done_{0};
  Ns elapsed_;
  std::int64_t killed_ = 0;
  std::int64_t not_forked_ = 0;
  std::vector<std::pair<std::string, std::int64_t>> counters_;
};

absl::Status Filestorm::Validate(const MachineFacts& machine) {
  shift_ = machine.page_shift.n;
  const std::int64_t mib =
      std::max<std::int64_t>(1, ToBytes(machine.memory, machine.page_shift) >> 20);
  if (Value(kReadMib) == 0) params_[kReadMib].value = mib + mib / 2;
  if (Value(kWriteMib) == 0) {
    params_[kWriteMib].value =
        std::max<std::int64_t>(1, mib / 4 / std::max<std::int64_t>(1, Value(kWriters)));
  }
  for (const Param param : {kReadMib, kWriteMib}) {
    if (PagesOf(param) <= std::int64_t{1} << 31) continue;
    return absl::InvalidArgumentError("workload." + params_[param].key + " = " +
                                      std::to_string(Value(param)) +
                                      " is more than the 2^31 pages a file may have");
  }
  hot_pages_ = machine.memory.n * Value(kHotPercent) / 100;
  total_ = PagesOf(kReadMib) * Value(kReaders) * Value(kReadPasses) +
           PagesOf(kWriteMib) * Value(kWriters) * (Value(kWritePasses) + 1);
  readers_.resize(static_cast<std::size_t>(Value(kReaders)));
  writers_.resize(static_cast<std::size_t>(Value(kWriters)));
  return absl::OkStatus();
}

void Filestorm::CreateFiles(mm::MemoryManager& mm) {
  for (std::int64_t file = kReadFile; file <= Value(kWriters); ++file) {
    const Pages pages{PagesOf(file == kReadFile ? kReadMib : kWriteMib)};
    files_.push_back(&mm.page_cache->CreateFile(
        pages, [file](std::uint32_t page) { return StampOf(file, page, 0); }));
  }
}

void Filestorm::StartAll(Process& self) {
  std::int64_t number = 0;
  const auto start = [&](const char* comm, std::function<void(Process&)> body) {
    const auto live = [body = std::move(body), n = number++](Process& me) {
      me.JoinCgroup(n);
      body(me);
    };
    if (self.Fork(comm, KernelFootprint{}, live) == nullptr) ++not_forked_;
  };
  streaming_.store(Value(kReaders) + Value(kWriters));
  for (std::int64_t i = 0; i < Value(kReaders); ++i) {
    Slot& slot = readers_[static_cast<std::size_t>(i)];
    start("fs-reader", [this, &slot, i](Process& me) { Reader(me, slot, i); });
  }
  for (std::int64_t i = 0; i < Value(kWriters); ++i) {
    Slot& slot = writers_[static_cast<std::size_t>(i)];
    start("fs-writer", [this, &slot, i](Process& me) { Writer(me, slot, i + 1); });
  }
  if (hot_pages_ > 0) start("fs-hot", [this](Process& me) { Hot(me, hot_); });
  // One that was never born does not stream.
  streaming_.fetch_sub(not_forked_);
}

void Filestorm::Main(Process& self) {
  CreateFiles(self.memory());
  const Ns start = Now();
  StartAll(self);
  while (self.children() > 0) {
    if (!self.WaitChild()) ++killed_;
  }
  elapsed_ = Now() - start;
  NoteCounters(self.memory());
}

// Counts a process out of those that stream, however it ends.
class Streaming {
 public:
  explicit Streaming(std::atomic<std::int64_t>& count) : count_(count) {}
  ~Streaming() { count_.fetch_sub(1); }
  Streaming(const Streaming&) = delete;
  Streaming& operator=(const Streaming&) = delete;

 private:
  std::atomic<std::int64_t>& count_;
};

bool Filestorm::ReadPage(Process& self, Slot& slot, mm::OpenFile& open, std::uint32_t page,
                         std::uint64_t expected) {
  const Ns start = Now();
  std::uint64_t stamp = 0;
  if (mm::ReadFilePage(self.memory(), open, page, &stamp) != mm::FileResult::kOk) return false;
  slot.access_ns.Record((Now() - start).n);
  if (stamp != expected && self.memory().config.stamps) ++slot.lost;
  done_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Filestorm::Reader(Process& self, Slot& slot, std::int64_t) {
  Streaming streaming(streaming_);
  mm::OpenFile open(*files_[kReadFile]);
  for (std::int64_t pass = 0; pass < Value(kReadPasses); ++pass) {
    open.next = 0;
    for (std::uint32_t page = 0; page < open.file->pages; ++page) {
      if (!ReadPage(self, slot, open, page, StampOf(kReadFile, page, 0))) return;
    }
  }
  slot.finished = true;
}

void Filestorm::WriteOnce(Process& self, Slot& slot, mm::OpenFile& open, std::int64_t number,
                          std::int64_t pass) {
  for (std::uint32_t page = 0; page < open.file->pages; ++page) {
    const Ns start = Now();
    if (mm::WriteFilePage(self.memory(), open, page, StampOf(number, page, pass)) !=
        mm::FileResult::kOk) {
      return;
    }
    slot.access_ns.Record((Now() - start).n);
    done_.fetch_add(1, std::memory_order_relaxed);
  }
}

void Filestorm::Writer(Process& self, Slot& slot, std::int64_t number) {
  Streaming streaming(streaming_);
  mm::OpenFile open(*files_[static_cast<std::size_t>(number)]);
  for (std::int64_t pass = 1; pass <= Value(kWritePasses); ++pass) {
    WriteOnce(self, slot, open, number, pass);
  }
  Slot reading;  // the reads are checked, and not part of the write latencies
  for (std::uint32_t page = 0; page < open.file->pages; ++page) {
    if (!ReadPage(self, reading, open, page, StampOf(number, page, Value(kWritePasses)))) return;
  }
  slot.lost += reading.lost;
  slot.finished = true;
}

// Rounds over the hot set until nobody streams any more.
void Filestorm::Hot(Process& self, Slot& slot) {
  const std::uint32_t first = self.MapAnon(hot_pages_);
  const auto pages = static_cast<std::uint32_t>(hot_pages_);
  for (std::int64_t round = 1; round == 1 || streaming_.load() > 0; ++round) {
    for (std::uint32_t page = 0; page < pages; ++page) {
      const Ns start = Now();
      if (round > 1 && !self.Holds(first + page, StampOf(kHotSet, page, round - 1))) ++slot.lost;
      self.Write(first + page, StampOf(kHotSet, page, round));
      slot.access_ns.Record((Now() - start).n);
      ChargeUser({200});
    }
    if (Value(kHotMs) > 0) SleepFor(Value(kHotMs) * kMillisecond);
  }
  slot.finished = true;
}

void Filestorm::NoteCounters(mm::MemoryManager& mm) {
  const mm::DirtyThrottle::Counts throttle = mm.page_cache->throttle().counts();
  const mm::Flusher::Counts flusher = mm.page_cache->flusher().counts();
  counters_ = {{"major_faults", mm.vmstat->Event(mm::VmEvent::kPgmajfault)},
               {"swap_outs", mm.vmstat->Event(mm::VmEvent::kPswpout)},
               {"throttle_naps", throttle.naps},
               {"throttle_written", throttle.written},
               {"flusher_written", flusher.background + flusher.kupdate},
               {"reclaim_written", mm.vmstat->Global(mm::ZoneStat::kNrVmscanWrite)}};
}

WorkloadReport Filestorm::Report() {
  Histogram reads, writes;
  std::int64_t lost = hot_.lost;
  std::int64_t finished = hot_.finished ? 1 : 0;
  const auto add = [&](const std::vector<Slot>& slots, Histogram& histogram) {
    for (const Slot& slot : slots) {
      histogram.Merge(slot.access_ns);
      lost += slot.lost;
      finished += slot.finished ? 1 : 0;
    }
  };
  add(readers_, reads);
  add(writers_, writes);
  const auto rate = [this](const Histogram& h) {
    return elapsed_.n > 0 ? h.count() * 1'000'000 / std::max<std::int64_t>(1, elapsed_.n / 1000)
                          : 0;
  };
  const auto line = [&](const char* what, const Histogram& h) {
    return std::to_string(h.count()) + " pages " + what + ", " + std::to_string(rate(h)) +
           " pages/s, p99 " + std::to_string(h.Percentile(99'000) / 1000) + " us, worst " +
           std::to_string(h.max() / 1000) + " us";
  };
  WorkloadReport report;
  report.out = {line("read", reads), line("written", writes),
                line("of the hot set touched", hot_.access_ns)};
  report.numbers = {{"tasks_finished", finished},
                    {"tasks_killed", killed_},
                    {"tasks_not_forked", not_forked_},
                    {"elapsed_ns", elapsed_.n},
                    {"pages_read", reads.count()},
                    {"read_ns_p99", reads.Percentile(99'000)},
                    {"read_ns_max", reads.max()},
                    {"pages_written", writes.count()},
                    {"write_ns_p99", writes.Percentile(99'000)},
                    {"write_ns_max", writes.max()},
                    {"hot_touches", hot_.access_ns.count()},
                    {"hot_ns_p99", hot_.access_ns.Percentile(99'000)},
                    {"hot_ns_max", hot_.access_ns.max()}};
  report.numbers.insert(report.numbers.end(), counters_.begin(), counters_.end());
  report.numbers.emplace_back("pages_lost", lost);
  FailIfLost(report, lost);
  return report;
}

}  // namespace

std::unique_ptr<Workload> MakeFilestorm() { return std::make_unique<Filestorm>(); }

}  // namespace pagestorm::bench
