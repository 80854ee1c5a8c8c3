"""The table of operators that run on the host: on NumPy arrays, lists (sequences) and None.

They stand between native stretches of a program, because what comes out of them has extents that
depend on data, or is no tensor. A function takes the node and the values of its inputs, and
returns its output or a tuple of them.

Mirrors: ONNX Runtime's CPU fallback, torch.compile's graph breaks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from minicc.errors import UserError
from minicc.frontends.onnx.reader import Node

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)

_STRING = 8  # TensorProto.DataType

HOST: dict[str, Function] = {}


def host_operator(name: str) -> Callable[[F], F]:
    """Decorate the function that runs an operator on the host."""

    def enter(run: F) -> F:
        if name in HOST:
            raise ValueError(f"two functions run {name}")
        HOST[name] = run
        return run

    return enter


def gives_texts(node: Node) -> bool:
    """Whether a node that is compiled otherwise makes texts of numbers, which the host does."""
    return node.op == "Cast" and node.attributes.get("to") in (_STRING, "STRING")


def run_host(node: Node, inputs: list[Any]) -> tuple[Any, ...]:
    """The outputs of a node on the host.

    MC0158 names it where its inputs are out of range, MC0159 where they are of another kind.
    """
    try:
        out = HOST[node.op](node, *inputs)
    except (IndexError, ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise UserError("MC0158", f"{node.op}: {error}", where=node.name) from error
    except AttributeError as error:
        kinds = ", ".join(sorted({type(x).__name__ for x in inputs}))
        text = f"{node.op} takes other kinds of values than {kinds}"
        raise UserError("MC0159", text, where=node.name) from error
    return out if isinstance(out, tuple) else (out,)
