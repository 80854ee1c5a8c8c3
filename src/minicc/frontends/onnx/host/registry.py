"""The table of operators that run on the host: on NumPy arrays, lists (sequences) and None.

They stand between native stretches of a program, because what comes out of them has extents that
depend on data, or is no tensor. A function takes the node and the values of its inputs, and
returns its output or a tuple of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np

from minicc.errors import UserError
from minicc.frontends.onnx.model.reader import Node
from minicc.ir.types import TensorType

Function = Callable[..., Any]
Where = Callable[[Node, Sequence[TensorType]], bool]  # whether it runs on these operands there
F = TypeVar("F", bound=Function)

_STRING = 8  # TensorProto.DataType
_WORDS = frozenset(("value_string", "value_strings"))  # attributes of a Constant that holds texts

HOST: dict[str, Function] = {}
WHERE: dict[str, Where] = {}


def host_operator(name: str, where: Where | None = None) -> Callable[[F], F]:
    """Decorate the function that runs an operator on the host.

    `where` says of which operands it is better than machine code, which runs it otherwise.
    """

    def enter(run: F) -> F:
        if name in HOST:
            raise ValueError(f"two functions run {name}")
        HOST[name] = run
        if where is not None:
            WHERE[name] = where
        return run

    return enter


def gives_texts(node: Node) -> bool:
    """Whether a node that is compiled otherwise makes texts, of numbers or of nothing."""
    if node.op == "Constant":
        tensor = node.attributes.get("value")
        named = not _WORDS.isdisjoint(node.attributes)
        return named or getattr(tensor, "data_type", 0) == _STRING
    return node.op == "Cast" and node.attributes.get("to") in (_STRING, "STRING")


# Operators that draw random numbers, where they have no seed.
_DRAWING = frozenset(
    (
        *("Bernoulli", "Dropout", "Multinomial"),
        *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
    )
)


@cache
def generator() -> np.random.RandomState:
    """What draws numbers for nodes that have no seed; several threads may use it at once."""
    # importing numpy.random takes longer than importing a small model
    return np.random.RandomState()


def draws_anew(node: Node) -> bool:
    """Whether a node that the host runs gives other numbers in each run."""
    return node.op in _DRAWING and "seed" not in node.attributes


def fresh_seed() -> int:
    """A seed for one run of a node that has none."""
    return int(generator().randint(1 << 32, dtype=np.uint64))


def set_seed(seed: int) -> None:
    """Begin anew what draws for nodes without a seed, so that runs that follow can be repeated."""
    generator().seed(seed % (1 << 32))


def run_host(node: Node, inputs: list[Any]) -> tuple[Any, ...]:
    """The outputs of a node on the host.

    MC0158 names it where its inputs are out of range, MC0159 where they are of another kind.
    """
    try:
        with np.errstate(all="ignore"):  # infinities and NaN are numbers like others
            out = HOST[node.op](node, *inputs)
    except (IndexError, ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise UserError("MC0158", f"{node.op}: {error}", where=node.name) from error
    except AttributeError as error:
        kinds = ", ".join(sorted({type(x).__name__ for x in inputs}))
        text = f"{node.op} takes other kinds of values than {kinds}"
        raise UserError("MC0159", text, where=node.name) from error
    return out if isinstance(out, tuple) else (out,)
