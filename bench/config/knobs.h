// The knob table: every value that steers a run, with name, type, range, default and meaning.
//
// The single source for reading files and --set, for `pagestorm list knobs` and docs, and for
// writing config.toml. A knob of a workload is added per run from the workload's own parameters
// (section [workload]).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/config/run_config.h"
#include "bench/config/value.h"

namespace pagestorm::bench {

// Which file may set it. A run configuration may set all; names of kMachine knobs have the prefix
// "machine." there and none in machine files.
enum class KnobScope : std::uint8_t { kRun, kKernel, kMachine, kWorkload };

struct Knob {
  std::string name;  // "throttle.limit", "machine.swap.mib"
  KnobScope scope;
  std::string allowed;  // "0..100", "true, false", "\"off\", \"zone\""
  std::string doc;      // one line, with the unit
  std::function<Value(const RunConfig&)> get;
  // Returns false, and changes nothing, if the value is not allowed.
  std::function<bool(RunConfig&, const Value&)> set;
};

// All knobs but those of workloads, in the order in which they are documented and written.
const std::vector<Knob>& Knobs();
// Knobs() and those of the workload's parameters; `config.params` must be set.
std::vector<Knob> KnobsOf(const RunConfig& config);

// nullptr if there is none. A machine knob is also found without its prefix.
const Knob* FindKnob(const std::vector<Knob>& knobs, std::string_view name);
// The known name that looks most like `name`; empty if none is near.
std::string NearestKnob(const std::vector<Knob>& knobs, std::string_view name);

// "throttle.limit = 3    integer ...: meaning", one line a knob, with the values of `config`.
std::string KnobHelp(const RunConfig& config, std::string_view filter);

}  // namespace pagestorm::bench
