#include "core/fiber.h"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>

namespace pagestorm {
namespace {

// A fiber and the host thread that hand over to each other.
struct Pair {
  FiberContext host;
  FiberContext fiber;
  EhGlobals* eh = nullptr;
  std::string log;

  void ToFiber() { SwitchFiber(host, fiber, eh); }
  void ToHost(bool finished = false) { SwitchFiber(fiber, host, eh, finished); }
};

void RethrowAcrossSwitch(FiberContext&) {
  auto& pair = *static_cast<Pair*>(StackOwner());
  try {
    try {
      throw std::runtime_error("fiber's");
    } catch (...) {
      pair.ToHost();
      throw;  // what this fiber caught, not what the host caught meanwhile
    }
  } catch (const std::exception& error) {
    pair.log += error.what();
  }
  pair.ToHost(/*finished=*/true);
}

TEST_CASE("SwitchFiber: each fiber keeps the exceptions it is handling", "[core][engine]") {
  StackPool stacks;
  Pair pair;
  AdoptHostThread(pair.host);
  pair.eh = HostEhGlobals();
  void* stack = stacks.Take();
  REQUIRE(stack != nullptr);
  MakeFiber(pair.fiber, stack, &pair, RethrowAcrossSwitch);
  pair.ToFiber();
  CHECK(std::current_exception() == nullptr);
  try {
    throw std::logic_error("host's");
  } catch (const std::exception& error) {
    pair.ToFiber();
    CHECK(std::string(error.what()) == "host's");
  }
  CHECK(pair.log == "fiber's");
  DestroyFiber(pair.fiber);
  stacks.Return(stack);
}

TEST_CASE("StackPool: stacks are aligned to their size and come back", "[core]") {
  StackPool stacks;
  void* first = stacks.Take();
  void* second = stacks.Take();
  REQUIRE(first != nullptr);
  CHECK(first != second);
  CHECK(reinterpret_cast<std::uintptr_t>(first) % kStackBytes == 0);
  stacks.Return(first);
  CHECK(stacks.Take() == first);
}

}  // namespace
}  // namespace pagestorm
