"""The record of what the tests verify, which `minicc ops` reads: see `catalogue`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, defs

from minicc import InferenceSession
from minicc.frontends.onnx import catalogue
from minicc.frontends.onnx.catalogue import Verified
from minicc.frontends.onnx.model.facts import all_nodes, operator_of

SAME = onnx.__version__ == catalogue.recorded_version()  # else the tests are others
# the operator in the name of a node that has none of its own
UNNAMED = re.compile(r"(?:^|/)([\w.]+)#\d+")


def verified(test: str, model: Any, session: InferenceSession) -> Verified:
    """What a test that passes verifies, and which of its operators the host ran."""
    opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
    nodes = [(name, node) for f in model.functions for name, node in all_nodes(f)]
    nodes += all_nodes(model.graph)
    named = {name: operator_of(node) for name, node in nodes}
    found: set[tuple[str, int]] = set()
    for operator in named.values():
        domain, _, name = operator.rpartition(".")
        if defs.has(name, opsets.get(domain, 1), domain):
            found.add((operator, defs.get_schema(name, opsets[domain], domain).since_version))
    host = {on.where for one in session._compiled.values() for on in one.host}
    types = [v.type for v in (*model.graph.input, *model.graph.output)]
    numeric = all(
        t.HasField("tensor_type") and t.tensor_type.elem_type != TensorProto.STRING for t in types
    )
    ran = {named.get(place) or UNNAMED.findall(place)[-1] for place in host}
    return Verified(test, numeric, tuple(sorted(ran)), tuple(sorted(found)))


def difference(found: Verified) -> str:
    """What the record says otherwise of a test; "" where it is as recorded."""
    if not SAME or found in RECORDED:
        return ""
    return f"{found.test} is not as recorded: {found}"


def write(found: Sequence[Verified]) -> None:
    """Write the record anew; after that `minicc ops --markdown > docs/operators.md`."""
    place = Path(catalogue.__file__).with_name(catalogue.RECORD)
    lines = [onnx.__version__, *[one.line() for one in found]]
    place.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


RECORDED = frozenset(catalogue.record())
