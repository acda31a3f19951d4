#include "core/fiber.h"

#include <cxxabi.h>
#include <pthread.h>
#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>
#include <mutex>

#include "core/check.h"

#if defined(PS_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(PS_TSAN)
#include <sanitizer/tsan_interface.h>
#endif
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define PS_VALGRIND_STACK(low, high) VALGRIND_STACK_REGISTER(low, high)
#else
#define PS_VALGRIND_STACK(low, high) 0
#endif

namespace pagestorm {
namespace {

namespace fctx = boost::context::detail;

constexpr std::size_t kStacksPerChunk = 64;
constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kChunkBytes = kStacksPerChunk * kStackBytes;

// Chunks of stacks that no engine uses, guards in place, for the next one: mapping and guarding
// them anew was a fifth of a short run. At most as many as leave the host's mapping limit alone.
class SpareChunks {
 public:
  void* Take() {
    const std::lock_guard guard(mu_);
    if (chunks_.empty()) return nullptr;
    void* chunk = chunks_.back();
    chunks_.pop_back();
    return chunk;
  }
  void Keep(void* chunk) {
    {
      const std::lock_guard guard(mu_);
      if (static_cast<std::ptrdiff_t>(chunks_.size()) < kMost) return chunks_.push_back(chunk);
    }
    munmap(chunk, kChunkBytes);
  }

 private:
#if defined(PS_ASAN) || defined(PS_TSAN)
  static constexpr std::ptrdiff_t kMost = 0;  // what they know of a stack goes with it
#else
  static constexpr std::ptrdiff_t kMost = 32;  // 2,048 stacks, 4,096 of 65,530 mappings
#endif
  std::mutex mu_;
  std::vector<void*> chunks_;
};

SpareChunks& Spares() {
  static SpareChunks* const spares =
      new SpareChunks;  // never destroyed: engines may outlive statics
  return *spares;
}

// Maps an aligned run of stacks, the guards not yet set; nullptr if the host refuses.
void* MapChunk() {
  // One stack more than needed, then trimmed.
  void* raw = mmap(nullptr, kChunkBytes + kStackBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(raw);
  const std::uintptr_t base = (address + kStackBytes - 1) & ~(kStackBytes - 1);
  if (base > address) munmap(raw, base - address);
  const std::size_t tail = address + kStackBytes - base;
  if (tail > 0) munmap(reinterpret_cast<void*>(base + kChunkBytes), tail);
  return reinterpret_cast<void*>(base);
}

// What a fiber needs to know on its first entry; lies on its own stack, below the owner word.
struct FirstEntry {
  FiberEntry entry;
  FiberContext* self;
};

FirstEntry& FirstEntryOf(void* stack) {
  auto* top = static_cast<std::byte*>(stack) + kStackBytes - sizeof(void*);
  return *reinterpret_cast<FirstEntry*>(top - sizeof(FirstEntry));
}

void BeforeSwitch([[maybe_unused]] FiberContext& from, [[maybe_unused]] FiberContext& to,
                  [[maybe_unused]] bool from_is_finished) {
#if defined(PS_ASAN)
  __sanitizer_start_switch_fiber(from_is_finished ? nullptr : &from.asan_fake_stack, to.stack_low,
                                 to.stack_bytes);
#endif
#if defined(PS_TSAN)
  __tsan_switch_to_fiber(to.tsan_fiber, 0);  // 0: the switch orders memory, as the engine's does
#endif
}

void AfterSwitch([[maybe_unused]] FiberContext& self) {
#if defined(PS_ASAN)
  __sanitizer_finish_switch_fiber(self.asan_fake_stack, nullptr, nullptr);
#endif
}

void Trampoline(fctx::transfer_t from) {
  auto& predecessor = *static_cast<FiberContext*>(from.data);
  predecessor.sp = from.fctx;
  auto* stack = reinterpret_cast<void*>(
      reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) & ~(kStackBytes - 1));
  FirstEntry& first = FirstEntryOf(stack);
  AfterSwitch(*first.self);
  first.entry(predecessor);
  PS_CHECK(false, "a fiber's entry function returned");
}

}  // namespace

EhGlobals* HostEhGlobals() { return reinterpret_cast<EhGlobals*>(abi::__cxa_get_globals()); }

void AdoptHostThread([[maybe_unused]] FiberContext& context) {
#if defined(PS_ASAN)
  pthread_attr_t attributes;
  void* low = nullptr;
  std::size_t bytes = 0;
  // AddressSanitizer must know the thread's own stack, or it cannot clean up after a throw.
  // lint: never across a switch (a host thread adopts itself before its first one).
  PS_CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
  PS_CHECK(pthread_attr_getstack(&attributes, &low, &bytes) == 0);
  pthread_attr_destroy(&attributes);
  context.stack_low = low;
  context.stack_bytes = bytes;
#endif
#if defined(PS_TSAN)
  context.tsan_fiber = __tsan_get_current_fiber();
#endif
}

void MakeFiber(FiberContext& context, void* stack, void* owner, FiberEntry entry) {
  auto* low = static_cast<std::byte*>(stack);
  auto* top = low + kStackBytes - sizeof(void*);
  *reinterpret_cast<void**>(top) = owner;
  FirstEntryOf(stack) = {entry, &context};
  const std::size_t colour =
      (reinterpret_cast<std::uintptr_t>(stack) / kStackBytes) % kStackColours * 64;
  // 64 bytes keep the owner word and FirstEntry clear of the first frame; fcontext aligns to 16.
  auto* start = low + kStackBytes - 64 - colour;
  context.sp = fctx::make_fcontext(start, kStackBytes - 64 - colour, Trampoline);
  context.eh = {};
  context.stack_low = stack;
  context.stack_bytes = kStackBytes;
  context.asan_fake_stack = nullptr;
#if defined(PS_TSAN)
  context.tsan_fiber = __tsan_create_fiber(0);
#endif
}

void DestroyFiber([[maybe_unused]] FiberContext& context) {
#if defined(PS_TSAN)
  __tsan_destroy_fiber(context.tsan_fiber);
  context.tsan_fiber = nullptr;
#endif
}

FiberContext& SwitchFiber(FiberContext& from, FiberContext& to, EhGlobals* eh,
                          bool from_is_finished) {
  from.eh = *eh;
  *eh = to.eh;  // nothing between here and the jump throws
  BeforeSwitch(from, to, from_is_finished);
  const fctx::transfer_t back = fctx::jump_fcontext(to.sp, &from);
  auto& predecessor = *static_cast<FiberContext*>(back.data);
  predecessor.sp = back.fctx;
  AfterSwitch(from);
  return predecessor;
}

StackPool::~StackPool() {
  for (const Chunk& chunk : chunks_) {
    chunk.guarded ? Spares().Keep(chunk.low) : static_cast<void>(munmap(chunk.low, kChunkBytes));
  }
}

void* StackPool::Take() {
  if (free_.empty() && !Grow()) return nullptr;
  void* stack = free_.back();
  free_.pop_back();
  return stack;
}

void StackPool::Return(void* stack) { free_.push_back(stack); }

bool StackPool::Grow() {
  void* chunk = Spares().Take();
  const bool spare = chunk != nullptr;
  if (!spare) chunk = MapChunk();
  if (chunk == nullptr) return false;
  chunks_.push_back({chunk, spare});
  for (std::size_t i = kStacksPerChunk; i-- > 0;) {
    std::byte* stack = static_cast<std::byte*>(chunk) + i * kStackBytes;
    // A guard costs two mappings of the host's default 65,530; without it an overflow goes unseen.
    if (!spare && mprotect(stack, kGuardBytes, PROT_NONE) != 0) return !free_.empty();
    static_cast<void>(PS_VALGRIND_STACK(stack, stack + kStackBytes));
    free_.push_back(stack);
  }
  chunks_.back().guarded = true;
  return true;
}

}  // namespace pagestorm
