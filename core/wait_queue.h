// Wait queues: sleep until a condition holds, be woken when it may have changed.
//
// A waiter is queued before it looks at its condition for the last time, so a wake between the look
// and the sleep is not lost (prepare, check, sleep). The condition is a callable that returns bool;
// it is evaluated again after every wake until it first returns true, and at that instant the wait
// is over: it may have a side effect ("take a token"). It must not charge, block or take a
// SpinLock. Every sleep throws Cancelled once the machine shuts down.
//
// Wake-ups follow the kernel's rules: the queue is walked from its head; every non-exclusive waiter
// met is woken; the walk ends after the wanted number of exclusive ones. Woken waiters leave the
// queue. Locking: mu_ (host lock); run-queue locks are taken under it.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/engine.h"
#include "core/raw_lock.h"

namespace pagestorm {

struct WaitOptions {
  bool exclusive = false;  // queued at the tail, woken one at a time
  bool at_tail = false;    // a non-exclusive waiter goes to the head, as in the kernel, unless set
  bool interruptible = false;  // a fatal signal ends the wait with Cancelled
  bool killable = false;       // a fatal signal ends the wait as if its time had come
  bool housekeeping = false;   // its timeout is no sign of life to the stall detector
  TaskId holder{};             // for the wait-for report: who has what this task waits for
};

class WaitQueue {
 public:
  // name: for the wait-for report, a string literal; number: tells queues of one name apart.
  WaitQueue(Engine& engine, const char* name, std::int64_t number = 0);
  ~WaitQueue();
  WaitQueue(const WaitQueue&) = delete;
  WaitQueue& operator=(const WaitQueue&) = delete;

  // Sleeps until condition() returns true.
  template <class Condition>
  void Wait(Condition condition, WaitOptions options = {}) {
    static_cast<void>(WaitUntil(kNever, condition, options));
  }
  // The same, but for at most `timeout`. Returns whether the condition was met.
  template <class Condition>
  [[nodiscard]] bool WaitFor(Ns timeout, Condition condition, WaitOptions options = {}) {
    return WaitUntil(FreshNow().n + timeout.n, condition, options);
  }
  // The same without a bound but for a fatal signal (killable).
  template <class Condition>
  [[nodiscard]] bool WaitKillable(Condition condition, WaitOptions options = {}) {
    options.killable = true;
    return WaitUntil(kNever, condition, options);
  }
  // Sleeps until the next wake of this queue, whatever it means, or the timeout. Returns whether
  // woken.
  bool WaitForWake(Ns timeout, WaitOptions options = {});

  // Wakes all non-exclusive waiters up to and including the n-th exclusive one. Returns how many
  // woke. Costs EngineCosts::wake_ns for each. May be called under a spin lock and from
  // PreemptGuard.
  int Wake(int exclusive);
  int WakeOne() { return Wake(1); }
  int WakeAll() { return Wake(INT32_MAX); }
  // Wakes exactly one waiter, exclusive or not: the oldest or the newest. Returns whether there was
  // one.
  bool WakeOldest();
  bool WakeNewest();

  [[nodiscard]] std::int64_t WaitersRacy() const { return waiters_; }
  [[nodiscard]] const char* name() const { return name_; }
  [[nodiscard]] std::int64_t number() const { return number_; }

 private:
  struct Waiter {
    Task* task = nullptr;
    Waiter* next = nullptr;
    Waiter* prev = nullptr;
    bool exclusive = false;
    bool queued = false;
    std::atomic<bool> woken{false};  // written under mu_
  };
  // Leaves the queue on every way out, also when Cancelled is thrown.
  class Scope {
   public:
    Scope(WaitQueue& queue, const WaitOptions& options);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    void Prepare();
    void Sleep(std::int64_t deadline);
    [[nodiscard]] bool Killed() const { return waiter_.task->fatal_signal.load(); }
    [[nodiscard]] bool woken() const { return waiter_.woken.load(std::memory_order_relaxed); }
    // The wait is over: met or timed out. A wake that comes later goes to someone else.
    void Leave();
    // The condition was met: a wake received belongs to it.
    void Satisfied() { satisfied_ = true; }

   private:
    WaitQueue& queue_;
    const WaitOptions options_;
    Waiter waiter_;
    bool satisfied_ = false;
  };

  template <class Condition>
  [[nodiscard]] bool WaitUntil(std::int64_t deadline, Condition& condition, WaitOptions options) {
    if (condition()) return true;
    Scope scope(*this, options);
    for (;;) {
      scope.Prepare();
      bool met = condition();
      if (!met && (Now().n >= deadline || (options.killable && scope.Killed()))) {
        // A wake may have chosen this waiter meanwhile; then it is not lost.
        scope.Leave();
        met = scope.woken() && condition();
        if (!met) return false;
      }
      if (met) {
        scope.Satisfied();
        return true;
      }
      scope.Sleep(deadline);
    }
  }
  // A waiter that was woken and gives up hands the wake to the next exclusive one.
  void PassOn();
  void Insert(Waiter& waiter, bool at_head);
  void Remove(Waiter& waiter);
  bool WakeWaiter(Waiter& waiter);
  int WakeLocked(int exclusive);

  Engine& engine_;
  const char* const name_;
  const std::int64_t number_;
  RawLock mu_;
  Waiter* head_ = nullptr;
  Waiter* tail_ = nullptr;
  OwnedCounter waiters_;  // written under mu_
};

}  // namespace pagestorm
