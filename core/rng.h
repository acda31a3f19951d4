// Seeded randomness: one seed a run, one stream an actor.
//
// Rng is xoshiro256++ (Blackman and Vigna, public domain), seeded through splitmix64. The generator
// and every distribution are our own because those of std:: and absl:: may differ between
// versions and compilers, and a result must replay from its seed. Never put two draws into one
// argument list: compilers evaluate them in different orders.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "core/check.h"

namespace pagestorm {

// One step of splitmix64: a bijective mixer, also used for hashes. Advances `state`.
constexpr std::uint64_t SplitMix64(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

class Rng {
 public:
  explicit constexpr Rng(std::uint64_t seed) {
    for (auto& word : s_) word = SplitMix64(seed);
  }

  // 64 uniform bits.
  constexpr std::uint64_t Next() {
    const std::uint64_t result = std::rotl(s_[0] + s_[3], 23) + s_[0];
    const std::uint64_t t = s_[1] << 17;
    s_[2] ^= s_[0];
    s_[3] ^= s_[1];
    s_[1] ^= s_[2];
    s_[0] ^= s_[3];
    s_[2] ^= t;
    s_[3] = std::rotl(s_[3], 45);
    return result;
  }

  // Uniform in [0, bound); bound > 0. Lemire's multiply-shift without the rejection step: the bias
  // is below bound / 2^64.
  constexpr std::uint64_t Below(std::uint64_t bound) {
    PS_DCHECK(bound > 0);
    return static_cast<std::uint64_t>((static_cast<Wide>(Next()) * bound) >> 64);
  }

  // Uniform in [low, high], both included; low <= high.
  constexpr std::int64_t Between(std::int64_t low, std::int64_t high) {
    // Unsigned, because a range of more than 2^63 values overflows the signed sum.
    const auto first = static_cast<std::uint64_t>(low);
    const std::uint64_t width = static_cast<std::uint64_t>(high) - first + 1;
    return static_cast<std::int64_t>(first + (width == 0 ? Next() : Below(width)));
  }

  // True with probability per_million / 1'000'000.
  constexpr bool Chance(std::uint32_t per_million) { return Below(1'000'000) < per_million; }

 private:
  __extension__ using Wide = unsigned __int128;
  std::array<std::uint64_t, 4> s_{};
};

// The seed of a run, from which every actor derives a stream of its own. Streams of different names
// or ids are independent; the order in which they are created does not matter.
class Seeds {
 public:
  explicit constexpr Seeds(std::uint64_t seed) : seed_(seed) {}

  [[nodiscard]] constexpr std::uint64_t seed() const { return seed_; }

  // The stream of one actor: `seeds.Stream("kswapd", node.n)`.
  [[nodiscard]] constexpr Rng Stream(std::string_view actor, std::int64_t id = 0) const {
    std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
    for (const char c : actor) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    }
    std::uint64_t state = seed_;
    std::uint64_t mixed = SplitMix64(state) ^ hash;
    mixed = SplitMix64(mixed) ^ static_cast<std::uint64_t>(id);
    return Rng(mixed);
  }

 private:
  std::uint64_t seed_;
};

}  // namespace pagestorm
