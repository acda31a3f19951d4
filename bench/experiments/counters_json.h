// Counters as one JSON object, in their order.
#pragma once

#include <nlohmann/json.hpp>

#include "bench/experiments/record.h"

namespace pagestorm::bench {

[[nodiscard]] inline nlohmann::ordered_json CountersJson(const Counters& counters) {
  auto json = nlohmann::ordered_json::object();
  for (const auto& [name, value] : counters) json[name] = value;
  return json;
}

}  // namespace pagestorm::bench
