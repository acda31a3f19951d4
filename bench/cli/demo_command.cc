// `pagestorm demo`: the false OOM and its cure, explained.
#include "bench/cli/commands.h"
#include "bench/experiments/demo.h"
#include "bench/experiments/run.h"

namespace pagestorm::bench {

int DemoCommand(const Args& args, const CommandContext& context) {
  const auto code = RunDemo({.seed = args.demo_seed, .interrupted = context.interrupted},
                            MakeLoadContext(context.roots));
  return code.ok() ? *code : BadInput(code.status());
}

}  // namespace pagestorm::bench
