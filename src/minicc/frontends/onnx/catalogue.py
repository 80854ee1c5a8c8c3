"""What minicc does with each operator of ONNX: element types, compiled or host, verifying tests.

Three sources, none of them written by hand: the tables of operators, ONNX's own schemas, and
`verified.tsv`, the record of a run of the tests that the `onnx` package ships (`python -m
tests.conformance.test_onnx_backend` writes it, and the tests compare it with what happens). Its
first line is the package's version. Each other is a test that passes: its name, `numeric` where all
that goes in and out are tensors of numbers, the operators that the host ran, and all operators with
their versions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from minicc.frontends.onnx.families import enter_all
from minicc.frontends.onnx.host.registry import HOST
from minicc.frontends.onnx.model.tensors import ELEMENTS
from minicc.frontends.onnx.nested import CONTROL, TWINS
from minicc.frontends.onnx.registry import OPERATORS, SEARCHES

enter_all()
RECORD = "verified.tsv"
_NONE = "-"
# how onnx spells element types that it does not spell as NumPy does
_SPELLED = {"float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16"}


class Verified(NamedTuple):
    """A test that passes: whether it has numbers alone, what the host ran, and all operators."""

    test: str
    numeric: bool
    host: tuple[str, ...]
    operators: tuple[tuple[str, int], ...]

    def line(self) -> str:
        """The test as a line of the record."""
        named = [f"{name}-{version}" for name, version in self.operators]
        kind = "numeric" if self.numeric else "other"
        cells = (self.test, kind, ",".join(self.host) or _NONE, ",".join(named) or _NONE)
        return "\t".join(cells)


class Row(NamedTuple):
    """An operator in one version: where it runs, and the tests that pass with it.

    `where` is what the tests showed, or what the tables say of what has none: `compiled`, `host`,
    `both` or `missing`.
    """

    operator: str
    version: int
    types: tuple[str, ...]
    where: str
    tests: tuple[str, ...]
    deprecated: bool


@cache
def _lines() -> tuple[str, ...]:
    return tuple(files(__package__).joinpath(RECORD).read_text(encoding="utf-8").splitlines())


def recorded_version() -> str:
    """The version of the `onnx` package whose tests the record is of."""
    return _lines()[0]


@cache
def record() -> tuple[Verified, ...]:
    """The tests that passed when the record was written."""
    return tuple(map(parsed, _lines()[1:]))


def parsed(line: str) -> Verified:
    """The test that a line of the record tells of."""
    test, kind, host, named = line.split("\t")
    pairs = (name.rpartition("-") for name in named.split(",") if named != _NONE)
    operators = tuple((name, int(version)) for name, _, version in pairs)
    return Verified(
        test, kind == "numeric", () if host == _NONE else tuple(host.split(",")), operators
    )


def operators(opset: int | None = None) -> tuple[Row, ...]:
    """A row for each operator and version; with an opset of ONNX, of the versions that it has."""
    from onnx import defs

    tests: dict[tuple[str, int], list[Verified]] = defaultdict(list)
    for found in record():
        for pair in found.operators:
            tests[pair].append(found)
    rows = [_row(schema, tests) for schema in defs.get_all_schemas_with_history()]
    known = {row.operator for row in rows}
    rows += [
        Row(name, 1, (), _by_tables(name), (), False)
        for name in sorted({*OPERATORS, *HOST, *TWINS, *SEARCHES} - known)
    ]
    rows.sort(key=lambda row: (row.operator.rpartition(".")[0], row.operator, row.version))
    return tuple(rows if opset is None else _of_opset(rows, opset))


def _of_opset(rows: Iterable[Row], opset: int) -> Iterator[Row]:
    """The newest version of each operator that the opset has; all domains but ONNX's are whole."""
    newest: dict[str, Row] = {}
    for row in rows:
        if "." in row.operator or row.version <= opset:
            newest[row.operator] = row
    yield from newest.values()


def _row(schema: Any, tests: Mapping[tuple[str, int], Sequence[Verified]]) -> Row:
    name = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
    found = tests.get((name, schema.since_version), ())
    hosted = [test for test in found if name in test.host]
    where = "host" if hosted else "compiled"
    if hosted and len(hosted) < len(found):
        where = "both"
    return Row(
        name,
        schema.since_version,
        _types(schema),
        where if found else _by_tables(name, schema),
        tuple(test.test for test in found),
        schema.deprecated,
    )


def _by_tables(name: str, schema: Any = None) -> str:
    """Where an operator runs that no test of the record has."""
    if name in CONTROL or name in SEARCHES:
        return "both"
    if name in OPERATORS or name in TWINS:
        return "compiled"
    if name in HOST:
        return "host"
    is_function = schema is not None and (
        schema.has_function or schema.has_context_dependent_function
    )
    return "compiled" if is_function else "missing"


def _types(schema: Any) -> tuple[str, ...]:
    """The element types of the first input, or output, that minicc has."""
    formals = [*schema.inputs, *schema.outputs]
    if not formals:
        return ()
    own = {str(element) for element in ELEMENTS.values()} | {"text"}
    spelled = {_element(text) for text in formals[0].types}
    return (*sorted(own & spelled), *sorted(spelled & {"seq", "optional", "map"}))


def _element(text: str) -> str:
    """An element type as minicc spells it: `tensor(int64)` is `i64`."""
    if not text.startswith("tensor("):
        return text.partition("(")[0]
    name = text.removeprefix("tensor(").removesuffix(")")
    if name == "string":
        return "text"
    for long, short in (("float8", "f8"), ("float6", "f6"), ("float4", "f4"), ("uint", "u")):
        name = name.replace(long, short)
    return _SPELLED.get(name, name.replace("int", "i"))


class Summary(NamedTuple):
    """What the record comes to: of the tests of numbers alone, how many are wholly compiled.

    `host` counts the tests of these by the operators that the host ran in them.
    """

    passing: int
    numeric: int
    compiled: int
    host: tuple[tuple[str, int], ...]


def summary() -> Summary:
    """What the record comes to."""
    numeric = [found for found in record() if found.numeric]
    compiled = sum(not found.host for found in numeric)
    counted = Counter(name for found in numeric for name in found.host)
    host = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
    return Summary(len(record()), len(numeric), compiled, tuple(host))
