"""The text of modules, functions and ops; `ir.text.parser` reads it back bit for bit.

    module level = "kernel"
    func @main(%x: f32[4]) -> ("y": f32[4]) {
      %y = arith.add %x, %x : f32[4] loc("Add_0")
      yield %y
    }

An op is printed from its declared fields alone: operands, then attributes that differ from their
default, then regions, then the types of its results and its location. Names of values are their
hints where these are plain words, made distinct by numbers. `grammar.lark` is the syntax.

Arrays of more than 64 bytes are elided to their digest; `resources` collects them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from minicc.ir.affine import Expr
from minicc.ir.core import (
    REQUIRED,
    Array,
    Function,
    Literal,
    Module,
    Op,
    Region,
    Value,
    attribute_key,
    walk,
)
from minicc.ir.schedule import Schedule
from minicc.ir.space import Space
from minicc.ir.text.names import escape, spell
from minicc.ir.types import BufferType, DType, TensorType, tensor_of

MOST_ELEMENTS = 8
MOST_BYTES = 64
INDENT = "  "
MARK = ">>>"

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_HARMLESS = re.compile(r"[A-Za-z0-9_ ./:;,#@()<>=+*-]*")


def print_module(module: Module, *, locations: bool = True) -> str:
    """The text of a module; with `locations=False` shorter, for reading alone."""
    parts = [f"module level = {quote(module.level)}\n"]
    parts += [print_function(f, locations=locations) for f in module.functions]
    return "\n".join(parts)


def print_function(function: Function, *, locations: bool = True, mark: Op | None = None) -> str:
    """The text of one function; the lines of `mark` begin with `>>>`."""
    printer = _Printer(locations, mark)
    printer.function(function)
    return "".join(f"{line}\n" for line in printer.lines)


def print_op(op: Op, *, locations: bool = True) -> str:
    """The text of one op, whose operands are named by their hints."""
    printer = _Printer(locations, None)
    for value in dict.fromkeys(op.operands):
        printer.define(value)
    printer.op(op, "")
    return "\n".join(printer.lines)


def resources(module: Module) -> dict[str, Array]:
    """The arrays that the module's text elides, by digest."""
    found: dict[str, Array] = {}

    def visit(value: Any) -> None:
        if isinstance(value, tuple):
            for part in value:
                visit(part)
        elif isinstance(value, Literal) and _inline(value.array) is None:
            found[value.digest] = value.array

    for function in module.functions:
        for value in function.attrs.values():
            visit(value)
        for op in walk(function.body):
            for value in op.attrs.values():
                visit(value)
    return found


def quote(text: str) -> str:
    """A string in double quotes; braces and what is not printable are escaped."""
    if _HARMLESS.fullmatch(text):
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(c: str) -> str:
    return _ESCAPES.get(c) or (c if c.isprintable() and c not in "{}" else escape(c))


def print_attribute(value: Any) -> str:
    """The text of an attribute's value; TypeError where its class has no syntax."""
    if type(value) is int:
        return str(value)
    if isinstance(value, Schedule):
        return _print_schedule(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(print_attribute, value))}]"
    if isinstance(value, float):
        bits = struct.pack(">d", value).hex()
        return float.__repr__(value) if value == value else f"nan<0x{bits}>"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, TensorType):
        # `!f32` is the element type, `!f32[]` the type of a scalar
        return f"!{value}" if value.shape else f"!{value}[]"
    if isinstance(value, Literal):
        return _print_literal(value)
    if isinstance(value, DType | BufferType):
        return f"!{value}"
    if isinstance(value, Expr | Space):
        return str(value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    raise TypeError(f"an attribute of class {type(value).__name__} has no syntax: {value!r}")


def _print_schedule(schedule: Schedule) -> str:
    """The fields that differ from their defaults."""
    parts = zip(schedule._fields, schedule, Schedule(), strict=True)
    shown = [f"{name} = {_field(value)}" for name, value, default in parts if value != default]
    return f"schedule<{', '.join(shown)}>"


def _field(value: Any) -> str:
    """A part of a schedule; names with numbers are written as a space is."""
    if not isinstance(value, tuple):
        return print_attribute(value)
    if value and all(isinstance(v, tuple) and [*map(type, v)] == [str, int] for v in value):
        return f"<{', '.join(f'{spell(name)}={n}' for name, n in value)}>"
    return f"[{', '.join(map(_field, value))}]"


def _print_literal(literal: Literal) -> str:
    payload = _inline(literal.array) or f"#{literal.digest}"
    return f"dense<{tensor_of(literal.array)}, {payload}>"


def _inline(array: Array) -> str | None:
    """The elements as text, or as bytes where text would not give all bits back; None if elided."""
    if array.size <= MOST_ELEMENTS:
        elements = [_element(x) for x in array.reshape(-1)]
        if all(elements):
            return f"[{', '.join(elements)}]" if array.ndim else elements[0]
    if array.nbytes <= MOST_BYTES:
        return f"0x{array.tobytes().hex()}"
    return None


def _element(x: Any) -> str:
    """The shortest text that gives the element's bits back; "" where none does."""
    if isinstance(x, np.bool_):
        return str(bool(x)).lower()
    if isinstance(x, np.integer):
        return str(int(x))
    if isinstance(x, np.complexfloating):
        return ""
    for number in float(str(x)), float(x):
        if number == number and np.asarray(number, x.dtype).tobytes() == x.tobytes():
            return repr(number)
    return ""


class _Printer:
    """Lines of text so far, and the names of values seen in one function."""

    def __init__(self, locations: bool, mark: Op | None) -> None:
        self.lines: list[str] = []
        self.locations = locations
        self.mark = mark
        self.names: dict[Value, str] = {}
        self.used: dict[str, int] = {}  # names, and how many numbers were tried after each
        self.unnamed = 0
        self.types: dict[Any, str] = {}

    def define(self, value: Value, *, quoted: bool = False) -> str:
        """Name a value; `quoted` keeps a hint that is no plain word, as inputs need it."""
        hint = value.hint
        if not hint or not (_WORD.fullmatch(hint) or quoted):
            name = f"%{self.unnamed}"
            self.unnamed += 1
        else:
            spelled = hint
            while spelled in self.used:
                self.used[hint] += 1
                spelled = f"{hint}_{self.used[hint]}"
            self.used[spelled] = 0
            name = f"%{spelled}" if _WORD.fullmatch(spelled) else f"%{quote(spelled)}"
        self.names[value] = name
        return name

    def use(self, value: Value) -> str:
        """The name of a value; one that is not defined, in a broken function, shows as `%?`."""
        return self.names.get(value) or f"%?{value.hint}"

    def type(self, value: Value) -> str:
        """The text of a value's type."""
        text = self.types.get(value.type)
        if text is None:
            text = self.types[value.type] = str(value.type)
        return text

    def arguments(self, values: Iterable[Value], quoted: bool = False) -> str:
        """Newly defined values with their types, in parentheses."""
        parts = [f"{self.define(v, quoted=quoted)}: {self.type(v)}" for v in values]
        return f"({', '.join(parts)})"

    def attributes(self, shown: Mapping[str, Any]) -> str:
        """The attributes as a dictionary after a blank, or nothing."""
        if not shown:
            return ""
        return f" {{{', '.join([f'{k} = {print_attribute(v)}' for k, v in shown.items()])}}}"

    def function(self, function: Function) -> None:
        """Print a function."""
        inputs = self.arguments(function.args, quoted=True)
        outputs = [
            f"{quote(name)}: {self.type(value)}"
            for name, value in zip(function.result_names, function.body.yields, strict=False)
        ]
        name = function.name if _WORD.fullmatch(function.name) else quote(function.name)
        head = f"func @{name}{inputs} -> ({', '.join(outputs)})"
        self.lines.append(f"{head}{self.attributes(function.attrs)} {{")
        self.body(function.body, "")
        self.lines.append("}")

    def body(self, region: Region, indent: str) -> None:
        """Print a region's ops and what it yields, one step deeper than `indent`."""
        deeper = indent + INDENT
        for op in region.ops:
            self.op(op, deeper)
        self.lines.append(f"{deeper}yield{self.operands(region.yields)}")

    def operands(self, values: Sequence[Value]) -> str:
        """The names of values after a blank, or nothing."""
        return f" {', '.join([self.use(v) for v in values])}" if values else ""

    def op(self, op: Op, indent: str) -> None:
        """Print an op with its regions."""
        start = len(self.lines)
        text = f"{op.opname}{self.operands(op.operands)}{self.attributes(_shown(op))}"
        tail = ""
        if op.results:
            text = f"{', '.join([self.define(v) for v in op.results])} = {text}"
            tail = f" : {', '.join([self.type(v) for v in op.results])}"
        if self.locations and op.loc:
            tail += f" loc({', '.join(map(quote, op.loc))})"
        self.lines.append(f"{indent}{text}{' {' if op.regions else tail}")
        for k, region in enumerate(op.regions):
            if k:
                self.lines.append(f"{indent}}} {{")
            if region.args:
                self.lines.append(f"{indent}^{self.arguments(region.args)}:")
            self.body(region, indent)
        if op.regions:
            self.lines.append(f"{indent}}}{tail}")
        if op is self.mark:
            self.lines[start:] = [f"{MARK} {line}" for line in self.lines[start:]]


def _shown(op: Op) -> dict[str, Any]:
    """The attributes that differ from their declared default, in the order of declaration."""
    attrs = op.attrs
    if not attrs:
        return {}
    shown: dict[str, Any] = {}
    for field in op.fields:
        if field.kind == "attribute" and field.name in attrs:
            value = attrs[field.name]
            default = field.default
            if default is REQUIRED or attribute_key(value) != attribute_key(default):
                shown[field.name] = value
    return shown
