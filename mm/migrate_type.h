// Mobility of pages: free memory is grouped by it so that large blocks can form.
// Source: spec throttle-2.6.26 2.3, 2.8.
#pragma once

#include <cstdint>
#include <string_view>

namespace pagestorm::mm {

enum class MigrateType : std::uint8_t { kUnmovable, kReclaimable, kMovable, kReserve, kIsolate };
inline constexpr int kMigrateTypes = 5;

// As /proc/pagetypeinfo prints it.
[[nodiscard]] constexpr std::string_view MigrateTypeName(MigrateType type) {
  switch (type) {
    case MigrateType::kUnmovable:
      return "Unmovable";
    case MigrateType::kReclaimable:
      return "Reclaimable";
    case MigrateType::kMovable:
      return "Movable";
    case MigrateType::kReserve:
      return "Reserve";
    case MigrateType::kIsolate:
      return "Isolate";
  }
  return {};
}

}  // namespace pagestorm::mm
