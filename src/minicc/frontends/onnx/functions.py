"""How large a model becomes whose functions are written out in it.

Mirrors: the limits of XML parsers on entities, which a "billion laughs" would exhaust.
"""

from __future__ import annotations

from typing import Any

_GRAPH = 5  # AttributeProto.AttributeType


def inlined_nodes(model: Any) -> int:
    """How many nodes a model has when its functions are written out; a function in itself is one.

    Functions that call themselves are for whoever writes them out to complain of.
    """
    functions = {(f.domain, f.name): f for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}
    # those that are called are counted before those that call them
    stack: list[tuple[tuple[str, str], bool]] = [(key, False) for key in functions]
    entered: set[tuple[str, str]] = set()
    while stack:
        key, leaving = stack.pop()
        if leaving:
            sizes[key] = _count(functions[key].node, sizes)
        elif key not in entered:
            entered.add(key)
            stack.append((key, True))
            stack += [(k, False) for k in _called(functions[key].node) if k in functions]
    return _count(model.graph.node, sizes)


def _called(nodes: Any) -> list[tuple[str, str]]:
    """The operators of nodes, and of those in their graphs."""
    inner = [k for n in nodes for a in n.attribute if a.type == _GRAPH for k in _called(a.g.node)]
    return [*[(n.domain, n.op_type) for n in nodes], *inner]


def _count(nodes: Any, sizes: dict[tuple[str, str], int]) -> int:
    return sum(sizes.get(key, 1) for key in _called(nodes))
