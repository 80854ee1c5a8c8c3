"""Finding a wrong rewrite: a rule that is no identity, found by interpreting every stage.

Each level has a meaning, so what each stage made can be run and compared with what it was given:
`minicc verify MODEL` does that. Applications of rules are numbered, so that the first one that is
wrong is found by halving: `minicc compile --apply-first N`. Last, what a text may not say at all.
"""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

import minicc
from minicc.compile.compiler import STAGES, lower
from minicc.ir import graph
from minicc.ir.core import Module
from minicc.ir.interpret import run
from minicc.ir.text.parser import parse_module
from minicc.ir.text.printer import print_module
from minicc.ir.verify import verify
from minicc.passes.graph.applications import Applications
from minicc.passes.graph.rules import RULES, Producer, Rule
from minicc.passes.graph.simplify import simplify

Array = npt.NDArray[np.float32]
OPTIONS = minicc.Options(target="x86-64")


def function(x: Any) -> Any:
    """A few rules fire on this."""
    y = np.tanh(x * 1) / 1
    return np.sqrt(y * y) + y


def match(op: graph.Sqrt, producer: Producer) -> graph.Mul | None:
    """sqrt(x * x)."""
    inner = producer(op.x)
    return inner if isinstance(inner, graph.Mul) and inner.a is inner.b else None


# sqrt(x * x) is |x|, and this says that it is x
WRONG = Rule("sqrt-of-square", graph.Sqrt, "exact", match, lambda b, op, found: found.a)


def difference(module: Module, x: Array, want: Array) -> float:
    """How far what a module gives is from what is wanted."""
    return float(np.abs(run(module, [x])[0] - want).max())


def main() -> int:
    """Return 0 where the wrong stage and the wrong application are found."""
    x = np.linspace(-2, 2, 64, dtype=np.float32)
    start = minicc.jit(function, options=OPTIONS).lower(x).module
    want = function(x)

    # The compiler's stages, with our rule among those of `simplify`.
    module, wrong = start, []
    for before, stage in zip((None, *STAGES), STAGES, strict=False):
        last = None if before is None else before.name
        module = lower(module, OPTIONS, start=last, stop=stage.name)
        if stage.name == "simplify":
            module = simplify(module, rules=(WRONG,))
        if difference(module, x, want) > 1e-5:
            wrong.append(stage.name)
    right = STAGES[[s.name for s in STAGES].index(wrong[0]) - 1].name
    print(f"right up to {right}, wrong after {wrong[0]} and all {len(wrong) - 1} stages after it")

    # Which application: the least number of them that is wrong.
    def applied(count: int) -> tuple[Module, Applications]:
        log = Applications(count)
        return simplify(start, log=log, rules=(*RULES, WRONG)), log

    low, high = 0, len(applied(1000)[1].made)
    while low + 1 < high:
        middle = (low + high) // 2
        if difference(applied(middle)[0], x, want) > 1e-5:
            high = middle
        else:
            low = middle
    made, log = applied(high)
    print("\nthe applications, of which the last is wrong:\n", *log.made, sep="\n  ")
    print(f"\n{print_module(made)}")

    # A map that leaves a part of the result unwritten is no program: the verifier says so.
    text = print_module(lower(start, OPTIONS, stop="merge"), locations=False)
    short = text.replace("maps = [[d0], [d0]]", "maps = [[d0], [d0 + 1]]")
    try:
        verify(parse_module(short, source="edited.mcc"))
    except minicc.MiniccError as error:
        print(error)
        return 0 if wrong[0] == "simplify" and "sqrt-of-square" in str(log.made[-1]) else 1
    return 1


if __name__ == "__main__":
    sys.exit(main())
