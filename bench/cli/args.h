// The command line as plain data. Parsing it is the business of args.cc, the only file that knows
// the command-line library.
#pragma once

#include <string>
#include <vector>

#include "bench/config/loader.h"
#include "bench/sweep/plan.h"

namespace pagestorm::bench {

// What `run` and `hackbench` have in common.
struct RunArgs {
  LoadRequest load;
  std::string out;
  bool force = false;
  int repeat = 1;
  bool dry_run = false;
  bool print_config = false;
  bool quiet = false;
  std::string control;  // path of a FIFO; empty: none
};

// hackbench's own two syntaxes: "125 process 1000" and "-g 125 -l 1000".
struct HackbenchArgs {
  std::vector<std::string> words;            // positional
  std::string groups, fan, loops, datasize;  // options of rt-tests; empty: not given
  bool pipe = false, inet = false, threads = false, processes = false;
};

struct ReproduceArgs {
  std::string table;
  bool list = false, quick = false, full = false;
  int seeds = 0;             // 0: as the length says
  int workers = 0;           // 0: one for each host core
  double disk = 1;           // times its speed
  double ram = 0;            // percent more
  bool sensitivity = false;  // also with other disks and memory sizes
  std::vector<Setting> sets;
  std::string out, json, markdown;  // empty: not written
  std::string commit;               // for the page
  bool force = false, quiet = false;
};

struct CompareArgs {
  std::vector<std::string> dirs;
  std::string baseline;  // a column's name; empty: the first
  std::string format = "text";
  std::string compat = "current";
};

struct SweepArgs {
  SweepRequest request;
  std::string out;
  int workers = 0;
  bool dry_run = false;
  bool quiet = false;
};

struct Args {
  enum class Command {
    kNone,
    kRun,
    kHackbench,
    kSweep,
    kList,
    kTopology,
    kDemo,
    kReproduce,
    kCompare
  };
  Command command = Command::kNone;
  RunArgs run;
  HackbenchArgs hackbench;
  ReproduceArgs reproduce;
  CompareArgs compare;
  SweepArgs sweep;
  std::string list_what, list_filter;  // of `list`
  std::string topology;                // of `topology`
  std::int64_t demo_seed = 1;          // of `demo`
  int exit_code = -1;                  // >= 0: nothing is left to do, leave with it
};

// Prints help, version or one line of complaint itself, and sets exit_code then: 0 or 2.
Args ParseArgs(int argc, char** argv);

}  // namespace pagestorm::bench
