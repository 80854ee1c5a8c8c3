"""Programs of graphs that Python code gave: opened from the cache, or compiled."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from minicc.errors import UnsupportedError
from minicc.frontends.trace import GivenUp, Sizes, Unsized, require_fast, work
from minicc.frontends.trace.recorder import VIEW_OPS
from minicc.ir import graph
from minicc.ir.bind import bind_sizes
from minicc.ir.core import Module, Op
from minicc.ir.text.printer import print_module
from minicc.later import Later
from minicc.options import Options
from minicc.runtime.programs import Programs
from minicc.runtime.saved import Compilation, Facts

if TYPE_CHECKING:
    from minicc.compile import compiled, partition
    from minicc.compile.compiled import Made
else:
    compiled, partition = Later("minicc.compile.compiled"), Later("minicc.compile.partition")

LITTLE = 1 << 20  # bytes of arrays, to which NumPy comes while a program goes to the host and back
PYTHON = 1 << 13  # numbers that rounds of Python's compute meanwhile
_ROUND = 1 << 17  # numbers that take as long as a round on the host does besides


class GraphProgram:
    """What runs a graph on this machine; the cache keeps it under the graph's printed text."""

    def __init__(self, module: Module, options: Options, text: str | None = None) -> None:
        """`text` is the printed module, where somebody has it."""
        self._module = module
        self._options = options
        self._text = text

    @cached_property
    def _programs(self) -> Programs:
        text = print_module(self._module) if self._text is None else self._text
        return Programs(text.encode(), None, self._options)

    def opened(self) -> Compilation | None:
        """The program that was kept, by this process or another one; needs no compiler."""
        saved = self._programs.find()
        if saved is None or saved.built is None:
            return None
        return saved.compilation(self._options)

    def compiled(self) -> Compilation:
        """The program, which is kept."""
        options = self._options
        facts = Facts((), (), (), options.math, len(self._module.main.body.ops))

        def keep(made: Made) -> None:
            self._programs.keep(None, made.built, made.facts(facts, {}), {})

        return compiled.compile_module(self._module, options, {}, keep)

    def made(self) -> Compilation:
        """The program that was kept, or else compiled now."""
        return self.opened() or self.compiled()


def require_worth(module: Module, sizes: Sizes) -> None:
    """GivenUp where rounds of little work would run on the host.

    Unsized where more would run there than for the numbers of this call.
    """
    hosted = partition.host_ops(module)
    if sizes:
        require_fast(module)
        bound = bind_sizes(module, sizes.numbers)
        anyway = Counter(_named(op) for op, _ in partition.host_ops(bound))
        for op, why in hosted:
            anyway[_named(op)] -= 1
            if anyway[_named(op)] < 0:
                raise Unsized(f"{' '.join(op.loc)}: {why}")
    for op, why in hosted:
        a_round = sum(work(inner) for region in op.regions for inner in region.ops)
        if op.control and a_round < _ROUND:
            text = f"a loop would be run round by round: {why}"
            raise GivenUp(UnsupportedError("MC0247", text, where=op.loc))


def is_little(module: Module, sizes: Sizes) -> bool:
    """Whether NumPy is as soon done with all that is computed around arrays that data size."""
    if sizes.counts is None:
        return False
    ops = bind_sizes(module, sizes.numbers).main.body.ops
    if any(op.regions and work(op) > PYTHON for op in ops):
        return False
    computed = [op for op in ops if not isinstance(op, (graph.Constant, graph.NonZero, *VIEW_OPS))]
    bits = sum([work(op) * op.results[0].type.dtype.bits for op in computed])
    return bool(bits < 8 * LITTLE)


def _named(op: Op) -> tuple[str, tuple[str, ...]]:
    return op.opname, op.loc
