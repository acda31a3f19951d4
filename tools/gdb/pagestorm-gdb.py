"""gdb commands for pagestorm: the emulated machine's tasks, and backtraces of suspended fibers.

    (gdb) source tools/gdb/pagestorm-gdb.py
    (gdb) pagestorm-tasks            every live task: id, name, state, CPU, what it waits for
    (gdb) pagestorm-bt ID            backtrace of one task
    (gdb) pagestorm-bt all           of all
    (gdb) pagestorm-engine EXPR      the machine to look at, if it is not found or there are several

gdb knows the stacks of OS threads only. A suspended task's registers lie on its own stack, where
Boost.Context left them; `pagestorm-bt` loads them into the selected thread, prints, and puts the
thread's own back. So it needs a live x86-64 process; in a core file it prints where the task would
continue.
"""

import gdb

STACK_SIZES = (64 * 1024, 256 * 1024)  # kStackBytes in core/fiber.h
STATES = ("new", "runnable", "running", "sleeping", "slept", "dead")  # TaskState in core/task.h
# Offsets from the saved stack pointer (jump_fcontext, System V x86-64).
SAVED = (("r12", 0x08), ("r13", 0x10), ("r14", 0x18), ("r15", 0x20), ("rbx", 0x28), ("rbp", 0x30),
         ("rip", 0x38))
RSP_AFTER = 0x40

chosen = None


def pointer_to(name):
    return gdb.lookup_type(name).pointer()


def address(value):
    return int(value.cast(gdb.lookup_type("unsigned long")))


def word(at):
    return address(gdb.Value(at).cast(pointer_to("unsigned long")).dereference())


def task_of_stack(rsp):
    """The task on whose stack rsp lies, or None."""
    for size in STACK_SIZES:
        low = rsp & ~(size - 1)
        try:
            task = gdb.Value(word(low + size - 8)).cast(pointer_to("pagestorm::Task"))
            if address(task["fiber"]["stack_low"]) == low:
                return task
        except gdb.error:
            continue
    return None


def engine_of_thread():
    """The engine the selected thread works for, or None."""
    frame = gdb.newest_frame()
    task = task_of_stack(int(frame.read_register("rsp")))
    if task is not None and address(task["cpu"]) != 0:
        return task["cpu"]["engine"]
    while frame is not None:
        name = frame.name() or ""
        if "Engine::Run" in name or "ThreadsEngine::" in name or "VirtualEngine::" in name:
            try:
                this = frame.read_var("this")
                if not this.is_optimized_out:
                    return this.cast(pointer_to("pagestorm::Engine"))
            except (ValueError, gdb.error):
                pass
        frame = frame.older()
    return None


def find_engine():
    if chosen is not None:
        return chosen
    before = gdb.selected_thread()
    try:
        for thread in sorted(gdb.selected_inferior().threads(), key=lambda t: t != before):
            thread.switch()
            engine = engine_of_thread()
            if engine is not None:
                return engine
    finally:
        before.switch()
    raise gdb.GdbError("no running pagestorm machine found; name it with pagestorm-engine EXPR")


def tasks(engine):
    vector = engine["tasks_"]["_M_impl"]
    # A unique_ptr is one pointer.
    at, end = address(vector["_M_start"]), address(vector["_M_finish"])
    for slot in range(at, end, 8):
        value = word(slot)
        if value != 0:
            yield gdb.Value(value).cast(pointer_to("pagestorm::Task"))


def text_of(std_string):
    return std_string["_M_dataplus"]["_M_p"].string()


def state_of(task):
    return STATES[int(task["state"]["_M_i"])]


def describe(task):
    cpu = task["cpu"]
    where = f"CPU {int(cpu['id']['n'])}" if address(cpu) != 0 else "no CPU"
    line = f"{int(task['id']['n']):6} {text_of(task['name']):16} {state_of(task):9} {where}"
    queue = task["waiting_on"]
    if address(queue) != 0:
        line += f"  waits on {queue['name_'].string()} {int(queue['number_'])}"
        holder = int(task["waiting_for"]["n"])
        if holder != 0:
            line += f" (held by task {holder})"
    return line


class Tasks(gdb.Command):
    """pagestorm-tasks: list the live tasks of the machine."""

    def __init__(self):
        super().__init__("pagestorm-tasks", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        for task in tasks(find_engine()):
            print(describe(task))


class Backtrace(gdb.Command):
    """pagestorm-bt ID|all: backtrace of a task, also a suspended one."""

    def __init__(self):
        super().__init__("pagestorm-bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        if not argument:
            raise gdb.GdbError("usage: pagestorm-bt ID|all")
        found = False
        for task in list(tasks(find_engine())):
            if argument != "all" and int(argument) != int(task["id"]["n"]):
                continue
            found = True
            print(describe(task))
            self.show(task)
        if not found:
            raise gdb.GdbError(f"no live task {argument}")

    def show(self, task):
        on_cpu = self.thread_on(task)
        if on_cpu is not None:
            before = gdb.selected_thread()
            on_cpu.switch()
            gdb.execute("backtrace")
            before.switch()
            return
        sp = address(task["fiber"]["sp"])
        if sp == 0:
            print("  has not run")
            return
        saved = {name: word(sp + offset) for name, offset in SAVED}
        saved["rsp"] = sp + RSP_AFTER
        gdb.execute("select-frame 0")
        own = {name: int(gdb.parse_and_eval(f"(unsigned long)${name}")) for name in saved}
        try:
            self.load(saved)
        except gdb.error:  # a core file
            gdb.execute(f"info symbol {saved['rip']:#x}")
            return
        try:
            gdb.execute("backtrace")
        finally:
            self.load(own)

    @staticmethod
    def load(registers):
        for name, value in registers.items():
            gdb.execute(f"set ${name} = {value:#x}")

    @staticmethod
    def thread_on(task):
        """The OS thread that is on this task's stack now, or None."""
        before = gdb.selected_thread()
        try:
            for thread in gdb.selected_inferior().threads():
                thread.switch()
                on = task_of_stack(int(gdb.newest_frame().read_register("rsp")))
                if on is not None and address(on) == address(task):
                    return thread
        finally:
            before.switch()
        return None


class ChooseEngine(gdb.Command):
    """pagestorm-engine EXPR: the machine the other commands look at (a pagestorm::Engine*)."""

    def __init__(self):
        super().__init__("pagestorm-engine", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        global chosen
        value = gdb.parse_and_eval(argument)
        if value.type.strip_typedefs().code != gdb.TYPE_CODE_PTR:
            value = value.address
        chosen = value.cast(pointer_to("pagestorm::Engine"))


Tasks()
Backtrace()
ChooseEngine()
