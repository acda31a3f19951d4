// Page-table entries: a frame or swap slot in the upper half, bits in the lower. Zero is "nothing
// yet".
//
// Hardware sets young and dirty on an access; here the access does so under the table's host lock.
#pragma once

#include <cstdint>

#include "mm/page_frame.h"

namespace pagestorm::mm {

struct Pte {
  std::uint64_t word = 0;

  static constexpr std::uint64_t kPresent = 1;
  static constexpr std::uint64_t kWritable = 2;
  static constexpr std::uint64_t kYoung = 4;
  static constexpr std::uint64_t kDirty = 8;
  static constexpr std::uint64_t kSwap = 16;
  static constexpr std::uint64_t kUnmapped = 32;  // munmap()ed: an access is an error

  static constexpr Pte Frame(FrameNo n, std::uint64_t bits) {
    return {(static_cast<std::uint64_t>(n) << 32) | kPresent | bits};
  }
  static constexpr Pte Slot(std::uint32_t slot) {
    return {(static_cast<std::uint64_t>(slot) << 32) | kSwap};
  }

  [[nodiscard]] constexpr bool none() const { return word == 0; }
  [[nodiscard]] constexpr bool Has(std::uint64_t bits) const { return (word & bits) == bits; }
  [[nodiscard]] constexpr bool present() const { return Has(kPresent); }
  [[nodiscard]] constexpr bool swapped() const { return Has(kSwap); }
  [[nodiscard]] constexpr FrameNo frame() const { return static_cast<FrameNo>(word >> 32); }
  [[nodiscard]] constexpr std::uint32_t slot() const {
    return static_cast<std::uint32_t>(word >> 32);
  }
  [[nodiscard]] constexpr Pte With(std::uint64_t bits) const { return {word | bits}; }
  [[nodiscard]] constexpr Pte Without(std::uint64_t bits) const { return {word & ~bits}; }
  friend constexpr bool operator==(Pte, Pte) = default;
};

}  // namespace pagestorm::mm
