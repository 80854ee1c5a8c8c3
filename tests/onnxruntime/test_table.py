"""The tables of docs/onnxruntime.md are made of the code; `pytest --update` writes them anew."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import minicc.onnxruntime as ort
from minicc.onnxruntime import errors, settings
from minicc.onnxruntime.settings import Configured

DOCUMENT = Path(__file__).parents[2] / "docs" / "onnxruntime.md"
BEGIN, END = "<!-- tables -->\n", "<!-- end of the tables -->\n"
OBJECTS = (ort.InferenceSession, ort.SessionOptions, ort.RunOptions, ort.IOBinding, ort.OrtValue)


def tables() -> Iterator[str]:
    for kind in (ort.SessionOptions, ort.RunOptions):
        yield f"### Attributes of {kind.__name__}\n"
        yield from table(("attribute", "default", "with minicc"), attributes(kind))
    yield "### Configurations of a session (`add_session_config_entry`)\n"
    rows = {f"`{name}`": [effect] for name, effect in settings.CONFIG_EFFECTS.items()}
    yield from table(("key", "with minicc"), {**rows, "any other": ["accepted"]})
    yield "### Functions\n"
    functions = {n: getattr(ort, n) for n in ort.__all__ if inspect.isfunction(getattr(ort, n))}
    yield from table(("function", "what it does"), calls(functions))
    for known in OBJECTS:
        yield f"### Calls of {known.__name__}\n"
        found = {n: getattr(known, n) for n in sorted(vars(known)) if not n.startswith("_")}
        methods = {n: f for n, f in found.items() if callable(f)}
        yield from table(("call", "what it does"), calls(methods))
    yield "### Names of ONNX Runtime that are absent\n"
    yield from table(("name", "why"), {f"`{n}`": [why] for n, why in ort.ABSENT.items()})
    yield "### Exceptions\n"
    kinds = {f"`{k.__name__}`": [str(n), first(k)] for k, (n, _) in errors._STATUS.items()}
    yield from table(("exception", "number", "what it says"), kinds)


def attributes(kind: type[Configured]) -> dict[str, list[str]]:
    return {
        f"`{name}`": [f"`{setting.default!s}`" if setting.default != "" else "", effect(setting)]
        for name, setting in sorted(kind.settings().items())
    }


def effect(setting: settings.Setting[Any]) -> str:
    return setting.effect or "accepted"


def calls(functions: Mapping[str, Any]) -> dict[str, list[str]]:
    return {f"`{name}`": [first(function)] for name, function in functions.items()}


def first(documented: Any) -> str:
    """The first line of a docstring."""
    return str(inspect.getdoc(documented)).splitlines()[0].replace("|", "\\|")


def table(head: tuple[str, ...], rows: Mapping[str, list[str]]) -> Iterator[str]:
    lines = [head, ("---",) * len(head), *((name, *cells) for name, cells in rows.items())]
    yield "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def test_tables_are_those_of_the_code(request: pytest.FixtureRequest) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    found, tail = rest.split(END)
    made = "\n" + "\n".join(tables()) + "\n"
    if request.config.getoption("--update"):
        DOCUMENT.write_text(f"{head}{BEGIN}{made}{END}{tail}", encoding="utf-8")
    else:
        assert found == made
