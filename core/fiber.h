// Stackful fibers: the stacks tasks run on, and the switch between them.
//
// A fiber's stack is aligned to its size and holds its owner's address in its topmost word, so that
// the running fiber is found from the stack pointer alone. No thread-local storage is involved:
// compilers cache thread-local addresses across a switch, and a fiber may wake on another thread.
// The switch is Boost.Context's fcontext; the hooks of AddressSanitizer, ThreadSanitizer and
// valgrind and the C++ runtime's exception state (`__cxa_eh_globals`) are handled here around it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pagestorm {

#if defined(PS_ASAN) || defined(PS_TSAN) || !defined(NDEBUG)
inline constexpr std::size_t kStackBytes =
    256 * 1024;  // unoptimised and instrumented frames are large
#else
inline constexpr std::size_t kStackBytes = 64 * 1024;
#endif
static_assert((kStackBytes & (kStackBytes - 1)) == 0, "the stack pointer is masked with it");

// Two words of the C++ runtime: the exceptions being handled and the number still in flight. They
// belong to the fiber but live in thread-local storage, and so travel with every switch.
struct EhGlobals {
  void* caught = nullptr;
  std::uintptr_t uncaught = 0;
};
// The calling OS thread's own pair. Fetch it once per thread, never across a switch.
EhGlobals* HostEhGlobals();

// One suspended or running flow of control: a fiber, or an OS thread's own stack.
struct FiberContext {
  void* sp = nullptr;  // saved stack pointer while suspended (fcontext_t)
  EhGlobals eh;
  // Bounds of the stack, for AddressSanitizer; the lowest address and the size in bytes.
  const void* stack_low = nullptr;
  std::size_t stack_bytes = 0;
  void* asan_fake_stack = nullptr;
  void* tsan_fiber = nullptr;
};

// Makes `context` stand for the calling OS thread's own stack.
void AdoptHostThread(FiberContext& context);

using FiberEntry = void (*)(FiberContext& predecessor);

// Prepares `context` so that the first switch to it calls entry(predecessor) on the given stack.
// `entry` must never return: a finished fiber switches away for good.
//   owner: what Current...() will find; `stack`: from a StackPool, kStackBytes long.
void MakeFiber(FiberContext& context, void* stack, void* owner, FiberEntry entry);
// Releases what the sanitizers keep for a fiber that will never run again.
void DestroyFiber(FiberContext& context);

// Suspends `from` (the caller) and resumes `to`. Returns when something switches back to `from`,
// with the context that did; its saved state is complete by then, so the caller may publish it.
//   eh: the pair of the OS thread this runs on. The caller must refetch its own notion of the OS
//   thread (its CPU) after the return.
//   from_is_finished: `from` will not be resumed again.
FiberContext& SwitchFiber(FiberContext& from, FiberContext& to, EhGlobals* eh,
                          bool from_is_finished = false);

// Stacks for fibers: one lazily committed mapping each, guard page below, reused after return, and,
// in chunks, by the next pool of the process. Not thread-safe: the engine guards it.
class StackPool {
 public:
  StackPool() = default;
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  // A stack of kStackBytes aligned to its size; nullptr when the host gives no more memory or
  // mappings.
  [[nodiscard]] void* Take();
  void Return(void* stack);

 private:
  struct Chunk {
    void* low = nullptr;
    bool guarded = false;  // all of its stacks
  };
  bool Grow();

  std::vector<void*> free_;
  std::vector<Chunk> chunks_;
};

// Where a new fiber starts on its stack. Stacks aligned to their size would all begin in the same
// cache sets; 64-byte colouring by the stack's number avoids that (ring of 1,024 fibers: half the
// time).
inline constexpr std::size_t kStackColours = 32;

// The owner word of the stack the caller runs on. Only valid on a fiber's stack.
inline void* StackOwner() {
#if defined(__x86_64__)
  std::uintptr_t sp;
  asm("mov %%rsp, %0" : "=r"(sp));
#else
  const auto sp = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
#endif
  const std::uintptr_t top = (sp & ~(kStackBytes - 1)) + kStackBytes;
  return *reinterpret_cast<void**>(top - sizeof(void*));
}

}  // namespace pagestorm
