#include "core/units.h"

#include <catch2/catch.hpp>
#include <concepts>
#include <cstdint>
#include <set>
#include <unordered_set>

namespace pagestorm {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};

// What must not compile is the point of the types.
static_assert(Addable<Ns, Ns> && Addable<Pfn, Pages>);
static_assert(!Addable<Ns, HostNs>, "emulated and host time never mix");
static_assert(!Addable<Ns, Pages>);
static_assert(!Addable<Pfn, Pfn>, "an index plus an index is no index");
static_assert(!Addable<NodeId, NodeId>);
static_assert(!Addable<Ns, std::int64_t>);
static_assert(!Comparable<NodeId, CpuId> && !Comparable<Ns, HostNs>);
static_assert(!std::convertible_to<std::int64_t, Ns>);

TEST_CASE("Quantity: does the arithmetic of a count with a unit", "[core][units]") {
  CHECK(Ns{5} + Ns{7} == Ns{12});
  CHECK(Ns{5} - Ns{7} == Ns{-2});
  CHECK(-Ns{5} == Ns{-5});
  CHECK(Ns{5} * 3 == Ns{15});
  CHECK(3 * Ns{5} == Ns{15});
  CHECK(Ns{17} / 5 == Ns{3});
  CHECK(kSecond / kMillisecond == 1'000);
  CHECK(kMillisecond / kMicrosecond == 1'000);
  CHECK(Ns{1} < Ns{2});
  Pages pages{10};
  pages += Pages{5};
  pages -= Pages{1};
  CHECK(pages == Pages{14});
}

TEST_CASE("Pfn: moves by pages, and two of them are pages apart", "[core][units]") {
  CHECK(Pfn{100} + Pages{28} == Pfn{128});
  CHECK(Pfn{100} + Pages{-28} == Pfn{72});
  CHECK(Pfn{128} - Pfn{100} == Pages{28});
  CHECK(Pfn{100} - Pfn{128} == Pages{-28});
}

TEST_CASE("PageShift: converts pages and bytes for 4, 16 and 64 KiB pages", "[core][units]") {
  CHECK(ToBytes(Pages{3}, PageShift{12}) == 12'288);
  CHECK(ToBytes(Pages{3}, PageShift{16}) == 196'608);
  CHECK(ToKiB(Pages{3}, PageShift{14}) == 48);
  CHECK(PagesFromBytes(12'288, PageShift{12}) == Pages{3});
  CHECK(PagesFromBytes(12'287, PageShift{12}) == Pages{2});
  // 1 TiB of 4 KiB pages needs more than 32 bits of bytes, and of KiB.
  CHECK(ToBytes(Pages{1LL << 28}, PageShift{12}) == 1LL << 40);
  CHECK(ToKiB(Pages{1LL << 30}, PageShift{12}) == 1LL << 32);
}

TEST_CASE("Index: orders and hashes by its number", "[core][units]") {
  const std::set<NodeId> nodes{NodeId{3}, NodeId{0}, kNoNode};
  CHECK(*nodes.begin() == kNoNode);
  CHECK(*nodes.rbegin() == NodeId{3});
  const std::unordered_set<CpuId> cpus{CpuId{1}, CpuId{1}, CpuId{2}};
  CHECK(cpus.size() == 2);
}

}  // namespace
}  // namespace pagestorm
