// The emulated kernel's log. Lines carry the emulated time; their text is the era's own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/engine.h"
#include "core/raw_lock.h"

namespace pagestorm::mm {

class Dmesg {
 public:
  explicit Dmesg(Engine& engine) : lock_(engine.kind()) {}

  // Adds the lines of `text` at the time Now(); from any task, also under a spin lock.
  void Print(std::string_view text);
  // printk_ratelimit: whether one more report may be printed; 10 within 5 s of emulated time. The
  // first one allowed after some were not is preceded by a line that counts those.
  [[nodiscard]] bool Ratelimit();
  // "[    1.234567] line\n"..., at rest.
  [[nodiscard]] std::string Text() const;

 private:
  mutable RawLock lock_;  // guards the rest
  std::vector<std::pair<std::int64_t, std::string>> lines_;
  std::int64_t window_began_ = 0;
  int printed_ = 0;
  std::int64_t suppressed_ = 0;
};

}  // namespace pagestorm::mm
