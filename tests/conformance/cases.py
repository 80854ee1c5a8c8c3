"""The cases of the onnx package: models, inputs, and the outputs that they must give."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.runner import Runner
from tests.conformance import record

from minicc import onnx_backend
from minicc.frontends.onnx.catalogue import Verified

LISTED = Path(__file__).with_name("known_failures.txt")
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
ON_DISK = ("simple", "pytorch-converted", "pytorch-operator")


class Case(NamedTuple):
    """A model, pairs of inputs and outputs, and how near the outputs must come."""

    name: str
    model: Any
    data: Any
    rtol: float
    atol: float


Form = Callable[[Any, list[Any]], tuple[Any, list[Any]]]


def plain(value: Any) -> Any:
    """Tensors as arrays, lists of them too."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list):
        return [plain(v) for v in value]
    return np.asarray(value) if isinstance(value, np.generic) else value


def read(path: Path, type_: Any) -> Any:
    """A value of a test as it is stored."""
    raw = path.read_bytes()
    if type_.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(raw))
    if type_.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(raw))
    return numpy_helper.to_array(onnx.TensorProto.FromString(raw))


def from_disk(folder: Path) -> Case:
    model = onnx.load(folder / "model.onnx")
    sets: list[tuple[list[Any], list[Any]]] = []
    for place in sorted(folder.glob("test_data_set_*")):
        sides = []
        for name, values in (("input", model.graph.input), ("output", model.graph.output)):
            count = len(list(place.glob(f"{name}_*.pb")))
            sides.append([read(place / f"{name}_{k}.pb", values[k].type) for k in range(count)])
        sets.append((sides[0], sides[1]))
    return Case(folder.name, model, sets, 1e-3, 1e-7)


@cache
def node_cases() -> tuple[Case, ...]:
    """The tests of single nodes, which take many seconds to make."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    return tuple(Case(c.name, c.model, c.data_sets, c.rtol, c.atol) for c in found)


@cache
def cases() -> tuple[Case, ...]:
    """All tests but the large networks, in the order of their names."""
    found = [*node_cases()]
    for kind in ON_DISK:
        found += [from_disk(path.parent) for path in (DATA / kind).glob("*/model.onnx")]
    return tuple(sorted(found, key=lambda c: c.name))


def light(path: Path) -> Case:
    """A network whose weights are all alike, on the input that the onnx package's runner makes."""
    model = onnx.load(path)
    wanted = read(Path(str(path).replace(".onnx", "_output_0.pb")), model.graph.output[0].type)
    weights = {tensor.name for tensor in model.graph.initializer}
    (given,) = (i for i in model.graph.input if i.name not in weights)
    shape = [d.dim_value for d in given.type.tensor_type.shape.dim]
    count = int(np.prod(shape))
    x = (np.arange(count).astype(np.float32) / count).reshape(shape)
    return Case(path.stem, model, [([x], [wanted])], 1e-3, 1e-7)


def light_files() -> list[Path]:
    return sorted((DATA / "light").glob("*.onnx"))


def copied(model: Any) -> Any:
    """The model once more, without what it says of the shapes in between."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.value_info[:]
    return made


def as_it_is(model: Any, inputs: list[Any]) -> tuple[Any, list[Any]]:
    return model, inputs


def with_free_dimensions(model: Any, inputs: list[Any]) -> tuple[Any, list[Any]]:
    """Each dimension of each input has a name of its own in place of a number."""
    made = copied(model)
    weights = {tensor.name for tensor in made.graph.initializer}
    number = 0
    for given in made.graph.input:
        if given.name not in weights and given.type.HasField("tensor_type"):
            for dim in given.type.tensor_type.shape.dim:
                dim.dim_param = f"s{number}"
                number += 1
    return made, inputs


def with_constants(model: Any, inputs: list[Any]) -> tuple[Any, list[Any]]:
    """Every input that is a tensor is a constant of the model."""
    made = copied(model)
    weights = {tensor.name for tensor in made.graph.initializer}
    given = [i for i in made.graph.input if i.name not in weights]
    rest = []
    for info, value in zip(given, inputs, strict=False):
        if info.type.HasField("tensor_type") and isinstance(value, np.ndarray):
            made.graph.initializer.append(numpy_helper.from_array(value, info.name))
            made.graph.input.remove(info)
        else:
            rest.append(value)
    return made, rest


FORMS: dict[str, Form] = {
    "as it is": as_it_is,
    "free dimensions": with_free_dimensions,
    "constants": with_constants,
}


def listed() -> set[str]:
    """The names of the tests that are known to fail."""
    return set(LISTED.read_text(encoding="utf-8").split())


def failure(case: Case, form: Form = as_it_is, found: list[Verified] | None = None) -> str:
    """What is wrong; "" if nothing is, then what the test verifies is added to what was found."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            last, backend = None, None
            for inputs, outputs in case.data:
                model, given = form(case.model, [plain(x) for x in inputs])
                if model is not last:
                    last, backend = model, onnx_backend.prepare(model)
                assert backend is not None
                got = backend.run(given)
                wanted = [plain(x) for x in outputs]
                Runner.assert_similar_outputs(wanted, list(got), rtol=case.rtol, atol=case.atol)
        if found is not None and backend is not None:
            found.append(record.verified(case.name, case.model, backend.session))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
