#include "mm/gate_chain.h"

#include <catch2/catch.hpp>

#include "mm/page_alloc.h"
#include "tests/mm/reclaim_machine.h"

namespace pagestorm::mm {
namespace {

// Writes down what is asked of it.
class LoggingGate final : public Gate {
 public:
  LoggingGate(std::string name, std::string& log) : name_(std::move(name)), log_(log) {}
  ShrinkResult Enter(Zone&, ScanControl&, Ticket& ticket) override {
    log_ += "+" + name_;
    ticket.held = true;
    if (throws) throw Cancelled{};
    return enter;
  }
  void Leave(Zone&, ScanControl&, Ticket& ticket) override {
    CHECK(ticket.held);
    log_ += "-" + name_;
  }
  ShrinkResult EnterDirect(std::span<Zone* const>, ScanControl&, Ticket& ticket) override {
    log_ += "(" + name_;
    ticket.place = 7;
    return enter;
  }
  void LeaveDirect(ScanControl&, Ticket& ticket) override {
    CHECK(ticket.place == 7);
    log_ += ")" + name_;
  }
  std::optional<std::int64_t> BeforeIsolation(Zone&, LruList, ScanControl&) override {
    log_ += "?" + name_;
    return instead;
  }
  void AfterScan(Zone&, const ScanControl&, std::int64_t) override { log_ += "!" + name_; }

  ShrinkResult enter = ShrinkResult::kOk;
  std::optional<std::int64_t> instead;
  bool throws = false;

 private:
  const std::string name_;
  std::string& log_;
};

// Mutations tried, red: left in the order of entering; the second one entered after kAgain; a gate
// that threw not left.
TEST_CASE("GateChain: who was entered is left, in reverse order", "[mm][gate]") {
  std::string log;
  auto a = std::make_unique<LoggingGate>("a", log);
  auto b = std::make_unique<LoggingGate>("b", log);
  LoggingGate& first = *a;
  LoggingGate& second = *b;
  std::vector<std::unique_ptr<Gate>> gates;
  gates.push_back(std::move(a));
  gates.push_back(std::move(b));
  GateChain chain(std::move(gates));
  ReclaimMachine machine;
  machine.Run([&] {
    const auto logged = [&](auto&& call) {
      log.clear();
      call();
      return log;
    };
    ScanControl sc;
    const auto visit = [&] {
      Gate::Ticket ticket;
      ShrinkResult result = ShrinkResult::kAgain;
      try {
        result = chain.Enter(machine.zone(), sc, ticket);
      } catch (const Cancelled&) {
      }
      chain.Leave(machine.zone(), sc, ticket);
      return result;
    };
    CHECK(logged(visit) == "+a+b-b-a");
    first.enter = ShrinkResult::kAgain;
    CHECK(logged(visit) == "+a-a");
    CHECK(visit() == ShrinkResult::kAgain);
    const auto direct = [&] {
      Gate::Ticket ticket;
      const auto zones = machine.mm->allocator->ZonelistFor(GFP_KERNEL, 0);
      CHECK(chain.EnterDirect(zones, sc, ticket) == first.enter);
      chain.LeaveDirect(sc, ticket);
    };
    CHECK(logged(direct) == "(a)a");
    first.enter = ShrinkResult::kOk;
    CHECK(logged(direct) == "(a(b)b)a");
    second.throws = true;
    CHECK(logged(visit) == "+a+b-b-a");
    const auto isolate = [&] {
      return chain.BeforeIsolation(machine.zone(), LruList::kInactiveAnon, sc);
    };
    second.instead = 5;
    CHECK(isolate() == 5);
    first.instead = 32;
    CHECK(logged([&] { CHECK(isolate() == 32); }) == "?a");
    CHECK(logged([&] { chain.AfterScan(machine.zone(), sc, 0); }) == "!a!b");
  });
}

// Mutation tried, red: the whole text looked up as one name.
TEST_CASE("GateChain: names joined by + stand behind each other", "[mm][gate]") {
  CHECK(CheckGates("none").ok());
  CHECK(CheckGates("too_many_isolated+pfmemalloc").ok());
  CHECK_FALSE(CheckGates("none+throttle").ok());
  CHECK_FALSE(CheckGates("throttle+throttle").ok());
  CHECK_FALSE(CheckGates("throttle+").ok());
  const std::string message(CheckGates("toomany").message());
  CHECK(message.rfind("throttle.gate = \"toomany\": allowed are none, pfmemalloc, ", 0) == 0);
  CHECK(message.find("; several but none, each once, joined by +") != std::string::npos);
  ReclaimMachineOptions options;
  options.policy.throttle.gate = "throttle+too_many_isolated";
  options.policy.throttle.limit = 1;
  ReclaimMachine machine(options);
  machine.Run([&] {
    machine.AddPages(100, ReclaimMachine::Kind::kCleanFile, false, false);
    ScanControl sc;
    machine.mm->reclaimer->ShrinkZone(0, machine.zone(), sc);
    CHECK(sc.nr_reclaimed > 0);
  });
  CHECK(machine.mm->gate->peak().tickets == 1);
  CHECK(machine.mm->gate->numbers().size() == 1);
}

}  // namespace
}  // namespace pagestorm::mm
