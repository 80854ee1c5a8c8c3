"""Functions that a model holds, written out where they are called, and how large it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minicc.limits import Limits, beyond

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


def inlined(model: Any) -> Any:
    """The model with its functions written out; RuntimeError and others where they make no sense.

    A function may be written for other versions of operator sets than the model. Where all that it
    calls is the same in both it is taken as one of the model's, else it is converted.
    """
    from onnx.inliner import inline_local_functions

    # which the inliner leaves out
    defaults = {(f.domain, f.name, f.overload): f.attribute_proto for f in model.functions}
    for graph in (model.graph, *model.functions) if any(defaults.values()) else ():
        _give_defaults(graph.node, defaults)
    versions = {o.domain: o.version for o in model.opset_import}
    unlike = False
    for function in model.functions:
        called = _called(function.node)
        for own in function.opset_import:
            wanted = versions.setdefault(own.domain, own.version)
            if own.version != wanted and _same(called, own.domain, own.version, wanted):
                own.version = wanted
            unlike |= own.version != wanted
    return inline_local_functions(model, unlike)


def _give_defaults(nodes: Any, defaults: dict[tuple[str, str, str], Any]) -> None:
    """Give calls of functions, also those in graphs, the attributes that they leave to these."""
    for node in nodes:
        given = {a.name for a in node.attribute}
        for attribute in defaults.get((node.domain, node.op_type, node.overload), ()):
            if attribute.name not in given:
                node.attribute.append(attribute)
        for attribute in node.attribute:
            if attribute.type == _GRAPH:
                _give_defaults(attribute.g.node, defaults)


def _same(called: list[tuple[str, str]], domain: str, one: int, other: int) -> bool:
    """Whether operators of a domain that are called are the same in two versions of it."""
    from onnx import defs

    def since(op: str, version: int) -> int:
        known = defs.has(op, version, domain)
        return int(defs.get_schema(op, version, domain).since_version) if known else 0

    return all(since(op, one) == since(op, other) for own, op in called if own == domain)


def require_size(graphs: Sequence[Any], limits: Limits, place: str) -> None:
    """MC0172 and MC0173 where graphs and those within them have more than `limits` allow."""
    nodes = depth = 0
    while graphs:
        nodes += sum(len(g.node) for g in graphs)
        if nodes > limits.nodes:
            raise beyond("nodes", f"the model has {nodes} nodes or more", limits, (place,))
        if depth > limits.nesting:
            text = f"the model has {depth} graphs within one another or more"
            raise beyond("nesting", text, limits, (place,))
        depth += 1
        within = (a for g in graphs for n in g.node for a in n.attribute if a.type == _GRAPH)
        graphs = [a.g for a in within]
