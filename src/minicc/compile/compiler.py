"""The compiler on one page: the stages in the order in which the data passes them.

Each stage is a pure function from a module to a module, with a name, a sentence, and the level
that it yields. What real systems a stage mirrors says the record of the module that holds its pass;
`minicc layers` prints all of them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from minicc.compile.memory import require_graph_fits, require_program_fits, require_within
from minicc.errors import CompilerBug, UserError
from minicc.ir import graph
from minicc.ir.core import Function, Module, Region, walk_control
from minicc.limits import look
from minicc.options import Options
from minicc.passes.graph.applications import Applications
from minicc.passes.graph.choose_algorithm import choose_algorithm
from minicc.passes.graph.choose_layout import choose_layout
from minicc.passes.graph.expand import expand
from minicc.passes.graph.fold_constants import fold_constants
from minicc.passes.graph.loops import simplify_loops
from minicc.passes.graph.simplify import simplify
from minicc.passes.graph.specialise import specialise
from minicc.passes.graph.split_complex import split_complex
from minicc.passes.graph.sum_integers import sum_integers
from minicc.passes.kernel.hoist import hoist
from minicc.passes.kernel.unroll import unroll
from minicc.passes.program.parallelize import parallelize
from minicc.passes.program.plan_memory import plan_memory
from minicc.passes.structured.bufferize import bufferize
from minicc.passes.structured.collapse import collapse
from minicc.passes.structured.fuse import fuse
from minicc.passes.structured.fusion_plan import Wishes
from minicc.passes.structured.lower_to_structured import lower_to_structured
from minicc.passes.structured.merge import merge
from minicc.passes.structured.pack import pack
from minicc.passes.structured.peel import peel
from minicc.passes.structured.split_sums import split_sums
from minicc.passes.structured.tile import tile
from minicc.passes.structured.write_schedules import Given, require_all_legal, write_schedules
from minicc.target import Target


class Setting(NamedTuple):
    """What stages may know besides the module.

    The machine, the mathematics, the sizes of free dimensions, the passes over kernels, where rules
    are numbered, and the schedules of groups by their names.
    """

    target: Target
    strict: bool
    binding: Mapping[str, int]
    kernels: KernelPasses
    applications: Applications | None = None
    given: Given | None = None


Run = Callable[[Module, Setting], Module]
KernelPass = Callable[[Function], Function]
Begin = Callable[[Sequence[Function]], None]


class Stage(NamedTuple):
    """A step of the compiler.

    `home` is the module that holds the pass. A stage that is `needed` can't be left out: what is
    after it relies on what it does. `after` is a stage without which it would find nothing to do.
    `kernel` does to one kernel what the stage does to each.
    """

    name: str
    sentence: str
    level: str
    home: str
    run: Run
    needed: bool = False
    after: str = ""
    kernel: KernelPass | None = None


class KernelPasses:
    """The stages that rewrite each kernel for itself, which need not wait for other kernels.

    Kernels that `bufferize` shows go through them at once, and on to `begin`, which may compile
    them while others are made. In their stages they are found done.
    """

    def __init__(self, stages: Sequence[Stage] = (), begin: Begin | None = None) -> None:
        self.stages = [s for s in stages if s.kernel is not None]
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._begin = begin
        self._made: dict[tuple[KernelPass, Region], Region] = {}

    @property
    def show(self) -> Begin | None:
        """What takes kernels that are shown."""
        return None if self._begin is None else self._shown

    def over(self, module: Module, rewrite: KernelPass) -> Module:
        """A module after a pass over each kernel."""
        main = module.main
        functions = [f if f is main else self._rewritten(f, rewrite) for f in module.functions]
        return Module(module.level, functions)

    def _shown(self, kernels: Sequence[Function]) -> None:
        look()
        for stage in self.stages:
            began = time.perf_counter()
            with _named(stage):
                assert stage.kernel is not None
                kernels = [self._rewritten(f, stage.kernel) for f in kernels]
            self.spent[stage.name] += time.perf_counter() - began
        began = time.perf_counter()
        assert self._begin is not None
        self._begin(kernels)
        self.spent["begin"] += time.perf_counter() - began

    def _rewritten(self, kernel: Function, rewrite: KernelPass) -> Function:
        """The kernel after a pass, which it may have been through under another name."""
        key = rewrite, kernel.body
        if key not in self._made:
            self._made[key] = rewrite(kernel).body
        return kernel.with_body(self._made[key])

    def taken(self, stage: Stage, seconds: float) -> float:
        """What a stage took, of which other stages may have had a part, or have done a part."""
        if stage.name == "bufferize":
            return seconds - sum(self.spent.values())
        return seconds + self.spent[stage.name]


def _stage(
    name: str,
    sentence: str,
    level: str,
    function: Callable[..., Module],
    run: Run | None = None,
    *,
    needed: bool = False,
    after: str = "",
) -> Stage:
    run = run or (lambda m, s: function(m))
    return Stage(name, sentence, level, function.__module__, run, needed, after)


def _of_kernels(name: str, sentence: str, rewrite: KernelPass) -> Stage:
    """A stage that rewrites each kernel for itself."""

    def run(m: Module, s: Setting) -> Module:
        return s.kernels.over(m, rewrite)

    return Stage(name, sentence, "kernel", rewrite.__module__, run, kernel=rewrite)


def _simplify(m: Module, s: Setting) -> Module:
    return simplify(m, s.strict, s.applications)


STAGES: tuple[Stage, ...] = (
    _stage(
        "specialise",
        "bind the free dimensions whose sizes are given",
        "graph",
        specialise,
        lambda m, s: specialise(m, s.binding),
        needed=True,
    ),
    # before rules, which know real numbers
    _stage(
        "split-complex",
        "take complex numbers apart",
        "graph",
        split_complex,
        needed=True,
    ),
    # before weights are folded to floats
    _stage(
        "sum-integers",
        "sum the integers of quantised operands, and scale the sums",
        "graph",
        sum_integers,
        lambda m, s: sum_integers(m, s.strict, s.target),
    ),
    # folding before rules, which look for constants
    _stage("fold-constants", "evaluate what depends on constants alone", "graph", fold_constants),
    _stage("simplify", "apply the named algebraic rules", "graph", simplify, _simplify),
    _stage(
        "simplify-loops",
        "make loops whole operations, take out of them what stays the same, write short ones out",
        "graph",
        simplify_loops,
        lambda m, s: simplify_loops(m, s.strict),
    ),
    _stage(
        "expand",
        "compare all with all to choose few elements, and combine narrow floats in f32",
        "graph",
        expand,
        needed=True,
    ),
    _stage("choose-layout", "hold images channels-last", "graph", choose_layout),
    # the layout leaves transposes of constants and pairs of transposes behind
    _stage("fold-layout", "evaluate the weights' new layouts", "graph", fold_constants),
    _stage("simplify-layout", "cancel transposes", "graph", simplify, _simplify),
    _stage(
        "choose-algorithm",
        "compute convolutions directly or by Winograd, and of symmetric products half",
        "graph",
        choose_algorithm,
        lambda m, s: choose_algorithm(m, s.strict, s.target),
    ),
    _stage(
        "fold-algorithm", "evaluate the weights' transforms", "graph", fold_constants, needed=True
    ),
    _stage(
        "lower-to-structured",
        "give each op its iteration space and index maps",
        "structured",
        lower_to_structured,
        lambda m, s: lower_to_structured(m, s.strict),
        needed=True,
    ),
    _stage("merge", "join elementwise ops into one body", "structured", merge),
    _stage(
        "split-sums",
        "part the long sums of products with few results",
        "structured",
        split_sums,
        lambda m, s: split_sums(m, s.target),
    ),
    _stage(
        "fuse",
        "group ops that share parallel dimensions",
        "structured",
        fuse,
        lambda m, s: fuse(m, s.target, (s.given or Given()).wishes),
        needed=True,
    ),
    _stage(
        "collapse",
        "count two dimensions of rows as one, where register tiles then fit better",
        "structured",
        collapse,
        lambda m, s: collapse(m, s.target),
        after="fuse",
    ),
    _stage(
        "schedule",
        "choose how each group is tiled and what is packed, where that is not given",
        "structured",
        write_schedules,
        lambda m, s: write_schedules(m, s.target, s.given or Given()),
        after="fuse",
    ),
    _stage(
        "tile",
        "cut the shared dimensions of groups into a grid and tiles",
        "structured",
        tile,
        after="schedule",
    ),
    # packing needs the tiles, whose order it packs for
    _stage(
        "pack",
        "store weights in the order in which tiles read them",
        "structured",
        pack,
        after="schedule",
    ),
    _stage(
        "peel",
        "run rounds of loops apart that read and write arrays of callers",
        "structured",
        peel,
        after="fuse",
    ),
    _stage(
        "bufferize",
        "give tensors memory; groups become kernels and launches",
        "kernel",
        bufferize,
        lambda m, s: bufferize(m, s.target, s.kernels.show),
        needed=True,
        after="fuse",
    ),
    # unrolling first: it makes indices constant, and with them more addresses invariant
    _of_kernels("unroll", "write loops out, short ones whole", unroll),
    _of_kernels("hoist", "move what does not change out of loops", hoist),
    _stage("plan-memory", "place all buffers in one arena", "program", plan_memory, needed=True),
    # barriers depend on which memory is reused
    _stage(
        "parallelize",
        "choose each launch's shares, put barriers",
        "program",
        parallelize,
        lambda m, s: parallelize(m, s.target),
    ),
)

Observe = Callable[[Stage, Module, Module, float], None]


def given_by(options: Options) -> Given:
    """What options say of fusion and schedules, which learns what of it was used."""
    return Given(options.schedules, Wishes(options.fuse, options.no_fuse))


def stage_names() -> list[str]:
    """The names of all stages, in order."""
    return [s.name for s in STAGES]


def input_level(stage: Stage) -> str:
    """The level of the modules that a stage takes: what the one before it yields."""
    position = STAGES.index(stage)
    return STAGES[position - 1].level if position else stage.level


def lower(
    module: Module,
    options: Options,
    binding: Mapping[str, int] | None = None,
    *,
    start: str | None = None,
    stop: str | None = None,
    observe: Observe | None = None,
    applications: Applications | None = None,
    given: Given | None = None,
    begin: Begin | None = None,
) -> Module:
    """Run the stages after `start` (all without it) up to and with `stop` (to the end without it).

    `applications` learns which rules were applied, and may stop them; `given` are the schedules of
    the options, and learns which were used.
    `observe(stage, before, after, seconds)` is called after each stage. `begin` is given kernels as
    they will be after all stages, but for their names, while others are made. UserError where a
    dimension stays free, a stage is unknown, or memory would not do (see `memory`); a bug of a
    stage is reported with the stage's name.
    """
    machine, strict = options.machine, options.math == "strict"
    given = given or given_by(options)
    skipped = skippable(options.skip)
    stages = [s for s in chosen_stages(start, stop) if s.name not in skipped]
    kernels = KernelPasses(stages, begin)
    setting = Setting(machine, strict, binding or {}, kernels, applications, given)
    if start is not None and stages:
        require_all_legal(module, machine, stages[0].name)
    for stage in stages:
        before = module
        look()
        began = time.perf_counter()
        module = run_stage(stage, before, setting)
        if observe is not None:
            taken = kernels.taken(stage, time.perf_counter() - began)
            observe(stage, before, module, taken)
        if stage.level == "graph":
            _let_go(before)
        if stage.name == "specialise":
            require_graph_fits(module, options.memory_limit)
            require_within(module, options.limits)
        elif stage.name == "plan-memory":
            require_program_fits(module, options.memory_limit)
    return module


def run_stage(stage: Stage, module: Module, setting: Setting) -> Module:
    """What a stage makes of a module; CompilerBug with the stage's name for what it can't take."""
    with _named(stage):
        return stage.run(module, setting)


@contextmanager
def _named(stage: Stage) -> Iterator[None]:
    """Within it, what fails is a bug of the stage."""
    try:
        yield
    except CompilerBug as bug:
        bug.stage = bug.stage or stage.name
        raise
    except (
        TypeError,
        ValueError,
        KeyError,
        IndexError,
        AssertionError,
        ZeroDivisionError,
    ) as error:
        raise CompilerBug(
            "MC0300", f"{type(error).__name__} in stage {stage.name}: {error}", stage=stage.name
        ) from error


def skippable(names: Sequence[str]) -> Sequence[str]:
    """The names of stages, none of which is needed; UserError MC0105 or MC0118."""
    chosen = [stage_named(name) for name in names]
    if needed := [s.name for s in chosen if s.needed]:
        others = ", ".join(s.name for s in STAGES if not s.needed)
        text = f"{', '.join(needed)} can't be left out: what is after it relies on what it does"
        raise UserError("MC0118", text, hint=f"those that can: {others}")
    return names


def stage_named(name: str, where: str = "") -> Stage:
    """The stage of that name; UserError MC0105 names those that there are."""
    for stage in STAGES:
        if stage.name == name:
            return stage
    hint = f"stages: {', '.join(stage_names())}"
    raise UserError("MC0105", f"no stage is called {name!r}", where=where, hint=hint)


def _let_go(module: Module) -> None:
    """Give back the pages of constants in files, which a stage may have read."""
    for op in walk_control(module.main.body):
        if isinstance(op, graph.Constant):
            op.value.let_go()


def chosen_stages(start: str | None, stop: str | None) -> Sequence[Stage]:
    """The stages after `start` up to and with `stop`; UserError names the stages there are."""
    names = stage_names()
    for name in (start, stop):
        if name is not None:
            stage_named(name)
    first = names.index(start) + 1 if start is not None else 0
    last = names.index(stop) + 1 if stop is not None else len(names)
    return STAGES[first:last]
