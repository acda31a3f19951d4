#include "bench/cli/args.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench/version.h"

namespace pagestorm::bench {
namespace {

// An option that sets a knob: --seed 7 is --set seed=7, with its own name in messages.
void KnobOption(CLI::App* app, LoadRequest& load, const std::string& option,
                const std::string& knob, const std::string& help) {
  app->add_option_function<std::string>(
      option,
      [&load, option, knob](const std::string& text) {
        load.sets.push_back({option, knob + "=" + text});
      },
      help);
}

// --set KNOB=VALUE and --sysctl, each as often as one likes.
void AddSets(CLI::App* app, LoadRequest& load, const std::string& set_help) {
  app->add_option_function<std::vector<std::string>>(
         "--set",
         [&load](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) load.sets.push_back({"--set", text});
         },
         set_help)
      ->allow_extra_args(false)
      ->expected(1)
      ->take_all();
  app->add_option("--sysctl", load.sysctls,
                  "write a kernel parameter while the machine runs: 1.5:vm.min_free_kbytes=8192")
      ->allow_extra_args(false)
      ->expected(1)
      ->take_all();
}

void AddRunOptions(CLI::App* app, RunArgs& run) {
  app->add_option("--machine", run.load.machine,
                  "machine: a name (pagestorm list machines), a .toml or a topology .xml");
  app->add_option("--kernel", run.load.kernel,
                  "kernel: a name (pagestorm list kernels) or a .toml");
  KnobOption(app, run.load, "--engine", "engine.kind", "virtual or threads");
  KnobOption(app, run.load, "--seed", "seed", "every random choice follows from it (default 1)");
  KnobOption(app, run.load, "--scale", "machine.scale", "divide memory, swap and workload by it");
  KnobOption(app, run.load, "--time-scale", "engine.time_scale",
             "threads engine: host seconds per emulated second");
  KnobOption(app, run.load, "--sample-ms", "sample_ms",
             "emulated ms between points of the time series");
  app->add_flag_callback(
      "--strict",
      [&run] {
        run.load.sets.push_back({"--strict", "engine.strict=true"});
      },
      "threads engine: fail if the host cannot keep up");
  AddSets(app, run.load, "set a knob: throttle.limit=8 (pagestorm list knobs)");
  app->add_option(
      "--control", run.control,
      "make a FIFO there; each line, such as vm.max_nr_task_per_zone=8, is written while "
      "the machine runs");
  app->add_option("--out", run.out, "run directory to write");
  app->add_flag("--force", run.force, "replace a run directory that exists");
  app->add_option("--repeat", run.repeat, "run seed, seed+1, ...; directories OUT/seed-N")
      ->check(CLI::Range(1, 1'000'000));
  app->add_flag("--dry-run", run.dry_run, "check everything, boot the machine, run nothing");
  app->add_flag("--print-config", run.print_config, "print the effective configuration and stop");
  app->add_flag("-q,--quiet", run.quiet, "no progress on stderr");
}

void AddRun(CLI::App& app, Args& args) {
  CLI::App* run = app.add_subcommand("run", "boot a machine and run a workload on it");
  run->add_option("config", args.run.load.config, "run configuration (.toml)");
  run->add_option("--workload", args.run.load.workload, "a name (pagestorm list workloads)");
  AddRunOptions(run, args.run);
  run->callback([&args] { args.command = Args::Command::kRun; });
}

void AddHackbench(CLI::App& app, Args& args) {
  CLI::App* bench = app.add_subcommand(
      "hackbench",
      "hackbench with its own command line: [-pipe] GROUPS [process|thread] [LOOPS], or the "
      "options of rt-tests");
  HackbenchArgs& own = args.hackbench;
  bench->add_option("words", own.words, "GROUPS [process|thread] [LOOPS]");
  bench->add_option("-g,--groups", own.groups, "groups");
  bench->add_option("-f,--fds", own.fan, "senders, and receivers, in a group");
  bench->add_option("-l,--loops", own.loops, "messages of each sender to each channel");
  bench->add_option("-s,--datasize", own.datasize, "bytes of a message");
  bench->add_flag("-p,--pipe", own.pipe, "pipes instead of sockets");
  bench->add_flag("-i,--inet", own.inet, "TCP: not emulated");
  bench->add_flag("-T,--threads", own.threads, "threads instead of processes");
  bench->add_flag("-P,--process", own.processes, "processes (default)");
  AddRunOptions(bench, args.run);
  bench->callback([&args] { args.command = Args::Command::kHackbench; });
}

void AddSweep(CLI::App& app, Args& args) {
  CLI::App* sweep = app.add_subcommand(
      "sweep", "every combination of values of knobs with every seed, on all cores of this host");
  SweepArgs& own = args.sweep;
  LoadRequest& load = own.request.load;
  sweep->add_option("config", load.config, "run configuration (.toml)");
  sweep->add_option("--workload", load.workload, "a name (pagestorm list workloads)");
  sweep->add_option("--kernel", load.kernel, "a kernel or a list of them: 2.6.26,2.6.32");
  sweep->add_option("--machine", load.machine, "a machine or a list of them");
  sweep->add_option_function<std::string>(
      "--engine",
      [&load](const std::string& text) {
        load.sets.push_back(
            {"--engine", "engine.kind=" + (text == "both" ? "virtual,threads" : text)});
      },
      "virtual, threads, or both");
  KnobOption(sweep, load, "--scale", "machine.scale", "divide memory, swap and workload by it");
  KnobOption(sweep, load, "--time-scale", "engine.time_scale",
             "threads engine: host seconds per emulated second");
  AddSets(sweep, load, "a knob and the list of its values: throttle.limit=1,2,4,-1");
  sweep->add_option(
      "--seeds", own.request.seeds,
      std::string("how many, or which: 10, 1-10, 1,5,9-12 (default ") + kDefaultSeeds + ")");
  sweep
      ->add_option("--workers", own.workers,
                   "runs of the virtual engine at a time; 0: one a core (default)")
      ->check(CLI::Range(0, 10'000));
  sweep->add_option("--out", own.out, "directory for the results; an interrupted sweep goes on");
  sweep->add_flag("--force", own.request.force, "do run more than 10000 runs");
  sweep->add_flag("--dry-run", own.dry_run, "check every point, run nothing");
  sweep->add_flag("-q,--quiet", own.quiet, "no progress on stderr");
  sweep->callback([&args] { args.command = Args::Command::kSweep; });
}

void AddList(CLI::App& app, Args& args) {
  CLI::App* list = app.add_subcommand("list", "what there is to choose from");
  list->add_option("what", args.list_what, "kernels, machines, workloads or knobs")
      ->required()
      ->check(CLI::IsMember({"kernels", "machines", "workloads", "knobs"}));
  list->add_option("filter", args.list_filter, "only names that contain this");
  list->callback([&args] { args.command = Args::Command::kList; });
}

void AddTopology(CLI::App& app, Args& args) {
  CLI::App* topology =
      app.add_subcommand("topology", "show a machine: nodes, CPUs, distances, zones");
  topology
      ->add_option("machine", args.topology,
                   "a machine's name, a .toml, a topology .xml, or a synthetic description")
      ->required();
  topology->callback([&args] { args.command = Args::Command::kTopology; });
}

void AddDemo(CLI::App& app, Args& args) {
  CLI::App* demo =
      app.add_subcommand("demo", "a false OOM and the throttle that removes it, explained");
  demo->add_option("--seed", args.demo_seed, "another storm (default 1)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{INT64_MAX}));
  demo->callback([&args] { args.command = Args::Command::kDemo; });
}

void AddReproduceLength(CLI::App* app, ReproduceArgs& own) {
  CLI::Option* quick = app->add_flag("--quick", own.quick, "seconds: few rows, few seeds");
  app->add_flag("--full", own.full, "the published length, for the record")->excludes(quick);
  app->add_option("--seeds", own.seeds, "runs of each cell, seeds 1, 2, ...")
      ->check(CLI::Range(1, 100'000));
  app->add_option("--workers", own.workers, "runs at a time; 0: one for each host core (default)")
      ->check(CLI::Range(0, 10'000));
  auto* disk = app->add_option("--disk", own.disk, "the disk at this many times its speed: 0.5, 2");
  auto* ram = app->add_option("--ram", own.ram, "percent more memory: +1, -1");
  app->add_flag("--sensitivity", own.sensitivity,
                "also with the disk at half and twice its speed and 1 % less and more memory")
      ->excludes(disk, ram);
  app->add_option_function<std::vector<std::string>>(
         "--set",
         [&own](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) own.sets.push_back({"--set", text});
         },
         "set a knob in every column (pagestorm list knobs)")
      ->allow_extra_args(false)
      ->expected(1)
      ->take_all();
}

void AddReproduce(CLI::App& app, Args& args) {
  CLI::App* reproduce = app.add_subcommand(
      "reproduce", "run a published table again, and judge what is claimed about it");
  ReproduceArgs& own = args.reproduce;
  reproduce->add_option("table", own.table, "a name (--list) or a .toml");
  reproduce->add_flag("--list", own.list, "the tables there are");
  AddReproduceLength(reproduce, own);
  reproduce->add_option("--out", own.out, "directory to write: JSON, text, Markdown and chart");
  reproduce->add_flag("--force", own.force, "replace a directory that exists");
  reproduce->add_option("--json", own.json, "file to write the result to");
  reproduce->add_option(
      "--markdown", own.markdown,
      "page whose section on the table is to be written; the chart goes beside it");
  reproduce->add_option("--commit", own.commit, "what the page says was built");
  reproduce->add_flag("-q,--quiet", own.quiet, "no progress on stderr");
  reproduce->callback([&args] { args.command = Args::Command::kReproduce; });
}

void AddCompare(CLI::App& app, Args& args) {
  CLI::App* compare = app.add_subcommand(
      "compare", "runs against each other, as mmtests prints them, with confidence intervals");
  CompareArgs& own = args.compare;
  compare
      ->add_option("dirs", own.dirs,
                   "a column each: a run directory, or one of seed-N (--repeat) or iter-N")
      ->required();
  compare->add_option("--baseline", own.baseline, "name of the column to compare with (the first)");
  compare->add_option("--format", own.format, "text, mmtests, csv, json or tsv (default text)")
      ->check(CLI::IsMember({"text", "mmtests", "csv", "json", "tsv"}));
  compare
      ->add_option("--compat", own.compat,
                   "generation of mmtests' layout: 2013, 2017 or current (default)")
      ->check(CLI::IsMember({"2013", "2017", "current"}));
  compare->callback([&args] { args.command = Args::Command::kCompare; });
}

// "-pipe" is one option of the classic program, not four letters.
std::vector<std::string> Words(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = argc - 1; i > 0; --i) {  // CLI11 takes them in reverse
    const std::string word = argv[i];
    words.push_back(word == "-pipe" ? "--pipe" : word);
  }
  return words;
}

bool HasCommand(CLI::App& app, const std::string& name) {
  return !app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; })
              .empty();
}

}  // namespace

Args ParseArgs(int argc, char** argv) {
  Args args;
  CLI::App app{"pagestorm: an emulated NUMA machine in one process, whose memory one can storm",
               "pagestorm"};
  app.set_version_flag("--version", std::string("pagestorm ") + kVersion);
  app.require_subcommand(1);
  AddRun(app, args);
  AddHackbench(app, args);
  AddSweep(app, args);
  AddList(app, args);
  AddTopology(app, args);
  AddDemo(app, args);
  AddReproduce(app, args);
  AddCompare(app, args);
  if (argc > 1 && argv[1][0] != '-' && !HasCommand(app, argv[1])) {
    std::fprintf(stderr, "pagestorm: %s: no such command (pagestorm --help)\n", argv[1]);
    args.exit_code = 2;
    return args;
  }
  try {
    app.parse(Words(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // help or version
      app.exit(error);
      args.exit_code = 0;
    } else {
      std::fprintf(stderr, "pagestorm: %s (pagestorm --help)\n", error.what());
      args.exit_code = 2;
    }
  }
  return args;
}

}  // namespace pagestorm::bench
