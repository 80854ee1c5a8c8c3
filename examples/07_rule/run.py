"""Adding a rule: an algebraic identity as data, shown at work and checked.

A rule has a name, a class, what it matches and what it builds. The class says what it does to
floating point: an exact rule keeps every bit, one that reassociates is an identity of real numbers
only, and strict mathematics leaves it out. Both claims are checked here against `evaluate`.
"""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

import minicc
from minicc.ir import graph
from minicc.ir.build import Builder
from minicc.ir.core import Module, Value
from minicc.ir.interpret import run
from minicc.ir.text.printer import print_module
from minicc.passes.graph.applications import Applications
from minicc.passes.graph.rules import RULES, Producer, Rule
from minicc.passes.graph.simplify import simplify

Array = npt.NDArray[np.float32]


def match_double_negation(op: graph.Neg, producer: Producer) -> Value | None:
    """The x of -(-x); `producer` gives the op that made a value."""
    inner = producer(op.x)
    return inner.x if isinstance(inner, graph.Neg) else None


def keep(b: Builder, op: Any, found: Value) -> Value:
    """What was found is the result."""
    return found


def match_root_of_square(op: graph.Sqrt, producer: Producer) -> Value | None:
    """The x of sqrt(x * x)."""
    inner = producer(op.x)
    return inner.a if isinstance(inner, graph.Mul) and inner.a is inner.b else None


def build_magnitude(b: Builder, op: Any, found: Value) -> Value:
    """The absolute value of what was found."""
    return b.emit(graph.Abs, found)


# In the compiler a rule is one more line of RULES in passes/graph/rules.py, and tests/rules wants
# a program on which it fires. Nothing else has to know of it.
OURS = (
    Rule("neg-of-neg", graph.Neg, "exact", match_double_negation, keep),
    # x * x overflows where |x| does not: no more than an identity of real numbers
    Rule("sqrt-of-square", graph.Sqrt, "reassociates", match_root_of_square, build_magnitude),
)


def negated(x: Array) -> Array:
    """-(-x): for the first rule."""
    y = -x
    return -y


def rooted(x: Array) -> Array:
    """sqrt(x * x): for the second rule, once the first has cleared the way."""
    y = negated(x)
    root: Array = np.sqrt(y * y)
    return root


def apply(module: Module, strict: bool = False) -> Module:
    """Simplify with our rules among the others, and tell what was applied."""
    log = Applications()
    after = simplify(module, strict, log, rules=(*RULES, *OURS))
    print(f"{'strict' if strict else 'fast'} mathematics:", *log.made, sep="\n  ")
    print(f"\n{print_module(after, locations=False)}")
    return after


def same_bits(left: Array, right: Array) -> bool:
    """Bitwise: 0 and -0 differ, and so do NaNs with other bits."""
    return left.tobytes() == right.tobytes()


def main() -> int:
    """Return 0 where the rules do what their classes say."""
    # any 32 bits are a float: infinities, NaNs and denormals are among these
    bits = np.random.default_rng(7).integers(0, 1 << 32, 4096, np.uint32)
    anything = bits.view(np.float32)
    tame = np.random.default_rng(8).uniform(-1e9, 1e9, 4096).astype(np.float32)

    first = minicc.jit(negated).lower(tame).module
    second = minicc.jit(rooted).lower(tame).module
    print(print_module(second, locations=False))
    strict, fast = apply(second, strict=True), apply(second)

    exact = same_bits(run(simplify(first, rules=OURS), [anything])[0], anything)
    exact &= same_bits(run(strict, [anything])[0], run(second, [anything])[0])
    close = np.allclose(run(fast, [tame])[0], run(second, [tame])[0], rtol=1e-6, atol=0)
    print(f"the exact rule keeps every bit of 4096 random floats: {exact}")
    print(f"the other one is close where nothing overflows: {close}")

    # Why strict mathematics does without it: the rewritten program has the better answer here, and
    # still not the one that was asked for.
    large = np.full(4096, -1e30, np.float32)
    before, after = run(second, [large])[0][0], run(fast, [large])[0][0]
    print(f"sqrt(x * x) at -1e30: {before} before, {after:.0e} after")
    again = Applications()
    simplify(fast, log=again, rules=(*RULES, *OURS))
    print(f"applied to its own result: {len(again.made)} applications")
    return 0 if exact and close and not again.made else 1


if __name__ == "__main__":
    sys.exit(main())
