"""Reads the text that `ir.text.printer` writes, or that a person wrote, back into a module.

Ops are built through their classes, so types are inferred; those in the text are compared. A person
may leave out types (but of arguments) and locations: an op then comes from its line. The dialects
whose ops occur must have been imported.

Every error is a `UserError` at a line and column. Codes: MC0110 syntax, MC0111 an op that is not
known, MC0112 a value that is not in scope, MC0113 a name given twice, MC0114 parts that do not fit
the op's declaration, MC0115 parts that its type rule refuses, MC0116 another type than inferred,
MC0117 an array that is missing or another.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from minicc.errors import UserError, did_you_mean
from minicc.ir.core import REGISTRY, REQUIRED, Array, Function, Literal, Module, Op, Region, Value
from minicc.ir.schedule import Schedule
from minicc.ir.text.syntax import Argument, Elided, Syntax, unquote
from minicc.ir.types import Type

_VALUE = re.compile(r'%(?:[A-Za-z0-9_]+|"(?:\\.|[^"\\\n])*")')
_WORD = re.compile(r"[A-Za-z0-9_]+|\S")
_STARTS = ("module", "schedules", "attributes", "types", "locations", "arguments")
# What a type rule or a verifier may raise when an op of hand-written text makes no sense to it.
_REFUSALS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
_WORDS = {
    "ARGUMENTS": "arguments of a region",
    "ATTRIBUTES": "attributes",
    "BYTES": "bytes",
    "DIGEST": "a digest",
    "FLOAT": "a number",
    "INTEGER": "a number",
    "LOCATIONS": "a location",
    "NAME": "the name of an op",
    "NAN": "a number",
    "OPERANDS": "operands",
    "QUOTED": "a symbol",
    "_SCHEDULE": "a schedule",
    "RESULTS": "results",
    "STRING": "a string",
    "SYMBOL": "the name of a function",
    "TYPES": "types",
    "VALUE": "a value",
    "WORD": "a word",
    "$END": "the end",
}


def parse_module(
    text: str, resources: Mapping[str, Array] | None = None, *, source: str = "text"
) -> Module:
    """The module that the text describes; UserError where it does not describe one.

    `resources` holds the elided arrays by digest; `source` names the text in errors and locations.
    """
    with _collector_paused():
        return _Parser(source, resources or {}).module(text)


def parse_schedules(text: str, *, source: str = "text") -> dict[str, Schedule]:
    """The schedules that a file gives by the names of their groups; UserError where it is wrong."""
    parser = _Parser(source, {})
    found: dict[str, Schedule] = {}
    for token, schedule in parser.syntax("schedules", text, None):
        name = unquote(token)
        if name in found:
            parser.fail("MC0113", f"{name} is given twice", token)
        found[name] = schedule
    return found


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Nothing dies while parsing, and the collector would look at all of it again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@cache
def _grammar() -> Any:
    import lark

    text = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return lark.Lark(text, parser="lalr", start=list(_STARTS), transformer=Syntax())


class _Shape(NamedTuple):
    """What the parser asks of an op's class: its fields, sorted by kind."""

    operands: int
    variadic: bool
    attributes: Mapping[str, Any]
    regions: int


def _shape(cls: type[Op]) -> _Shape:
    kinds = [f.kind for f in cls.fields]
    attributes = {f.name: f.default for f in cls.fields if f.kind == "attribute"}
    count = kinds.count
    return _Shape(count("operand"), "operands" in kinds, attributes, count("region"))


class _Parser:
    """State while one text is parsed: values in scope, and what was parsed before by its text."""

    def __init__(self, source: str, resources: Mapping[str, Array]) -> None:
        self.source = source
        self.resources = resources
        self.scope: dict[str, Value] = {}
        self.parsed: dict[str, Any] = {}
        self.shapes: dict[type[Op], _Shape] = {}
        self.completed: dict[tuple[type[Op], str], dict[str, Any]] = {}

    def fail(self, code: str, message: str, token: Any, at: int = 0, *, hint: str = "") -> NoReturn:
        """Raise a user's error `at` characters after the start of a token."""
        raise UserError(code, message, hint=hint, where=self.place(token, at)) from None

    def place(self, token: Any, at: int = 0) -> str:
        """Source, line and column of a character of a token."""
        return self.place_in(token, str(token)[:at])

    def place_in(self, token: Any, before: str) -> str:
        """The place after `before`, which begins where the token does, or the text if None."""
        line, column = (1, 1) if token is None else (token.line, token.column)
        last = before.rpartition("\n")[2]
        column = len(last) + (1 if "\n" in before else column)
        return f"{self.source}:{line + before.count(chr(10))}:{column}"

    # Syntax -----------------------------------------------------------------------------------

    def module(self, text: str) -> Module:
        """Parse everything."""
        level, *functions = self.syntax("module", text, None)
        return Module(unquote(level), [self.function(*parts) for parts in functions])

    def inner(self, start: str, token: Any) -> Any:
        """The meaning of a coarse token, parsed once for each text."""
        text: str = token.value  # a plain string: tokens are slow to compare
        found = self.parsed.get(text)
        if found is None:
            found = self.parsed[text] = self.syntax(start, text, token)
        return found

    def syntax(self, start: str, text: str, outer: Any) -> Any:
        """Run lark; what it finds wrong is told where it stands in the whole text."""
        from lark.exceptions import UnexpectedInput

        try:
            return _grammar().parse(text, start=start)
        except UnexpectedInput as error:
            self.syntax_error(error, start, text, outer)
        except _REFUSALS as error:
            # a division by zero in an expression, an element type that does not exist
            where = self.place_in(outer, text[: getattr(error, "at", 0)])
            raise UserError("MC0110", _message(error), where=where) from None

    def syntax_error(self, error: Any, start: str, text: str, outer: Any) -> NoReturn:
        """Say what stands there, and what could."""
        # The error itself lists what some state with the same tokens to come would take.
        replay = _grammar().parse_interactive(text, start=start)
        with suppress(type(error)):
            replay.exhaust_lexer()
        expected: Iterable[str] = replay.accepts()
        patterns = {t.name: t.pattern for t in _grammar().terminals}
        names = {_WORDS.get(n) or repr(patterns[n].value) for n in expected}
        at_end = getattr(getattr(error, "token", None), "type", "") == "$END"
        at = len(text.rstrip()) if at_end else error.pos_in_stream
        seen = _WORD.match(text, at)
        found = repr(seen.group()) if seen else "the end"
        message = f"{found} stands where {_alternatives(sorted(names))} should"
        raise UserError("MC0110", message, where=self.place_in(outer, text[:at])) from None

    # Building ---------------------------------------------------------------------------------

    def function(
        self,
        symbol: Any,
        inputs: Sequence[Argument],
        outputs: Sequence[tuple[Any, Type]],
        attributes: Any,
        nodes: Sequence[Any],
        yields: Any,
    ) -> Function:
        """Build a function in a scope of its own."""
        self.scope = {}
        body = self.region(inputs, None, nodes, yields)
        name = symbol[1:]
        names = [unquote(n) for n, _ in outputs]
        if len(names) != len(body.yields):
            message = f"@{name} names {len(names)} results, but yields {len(body.yields)}"
            self.fail("MC0114", message, symbol)
        for (token, type), value in zip(outputs, body.yields, strict=True):
            if type != value.type:
                message = f"result {token} of @{name} is {value.type}, not {type}"
                self.fail("MC0116", message, token)
        attrs = {}
        if attributes is not None:
            attrs = {str(k): self.resolved(v, attributes) for k, v in self.pairs(attributes)}
        return Function(unquote(name) if name[0] == '"' else name, body, attrs, names)

    def region(
        self, arguments: Sequence[Argument], outer: Any, nodes: Sequence[Any], yields: Any
    ) -> Region:
        """Build a region; its values leave the scope after it."""
        mine: list[str] = []
        args: list[Value] = []
        for token, type in arguments:
            name = token.value
            value = Value(type, _hint(name))
            if name in self.scope:
                spot = (token, 0) if outer is None else (outer, token.start_pos)
                self.fail("MC0113", f"{name} is defined twice", *spot)
            self.scope[name] = value
            mine.append(name)
            args.append(value)
        ops = [self.op(node, mine) for node in nodes]
        region = Region(args, ops, self.operands(yields))
        for name in mine:
            del self.scope[name]
        return region

    def operands(self, token: Any) -> tuple[Value, ...]:
        """The values that a list names."""
        if token is None:
            return ()
        scope = self.scope
        try:
            return tuple([scope[name] for name in _VALUE.findall(token)])
        except KeyError:
            unknown = next(m for m in _VALUE.finditer(token) if m.group() not in scope)
            hint = did_you_mean(unknown.group(), scope)
            message = f"{unknown.group()} is not defined here"
            self.fail("MC0112", message, token, unknown.start(), hint=hint)

    def op(self, node: Sequence[Any], mine: list[str]) -> Op:
        """Build an op and define its results, whose names are added to `mine`."""
        results, name_token, operand_token, attribute_token, *region_nodes, types, locations = node
        name = name_token.rstrip()
        cls = REGISTRY.get(name)
        if cls is None:
            hint = did_you_mean(name, REGISTRY)
            self.fail("MC0111", f"no op is called {name}", name_token, hint=hint)
        operands = self.operands(operand_token)
        attrs = self.attributes(cls, name_token, attribute_token)
        regions = [self.region_of(r) for r in region_nodes]
        self.check_counts(cls, name_token, len(operands), len(regions))
        if locations is None:
            loc: tuple[str, ...] = (f"{self.source}:{name_token.line}",)
        else:
            loc = self.inner("locations", locations)
        try:
            op = cls.make(operands, attrs, regions, loc)
        except _REFUSALS as error:
            self.fail("MC0115", f"{name}: {_message(error)}", name_token)
        if types is not None:
            self.check_types(op, types)
        if results is not None or op.results:
            self.name_results(op, results if results is not None else name_token, mine)
        return op

    def shape(self, cls: type[Op]) -> _Shape:
        """The declaration of an op's class, sorted by kind."""
        found = self.shapes.get(cls)
        if found is None:
            found = self.shapes[cls] = _shape(cls)
        return found

    def region_of(self, node: Sequence[Any]) -> Region:
        """Build a region of an op."""
        header, nodes, yields = node
        arguments = self.inner("arguments", header) if header is not None else ()
        return self.region(arguments, header, nodes, yields)

    def check_counts(self, cls: type[Op], token: Any, operands: int, regions: int) -> None:
        """Compare the numbers of operands and regions with the declaration."""
        shape = self.shape(cls)
        if operands != shape.operands and not (shape.variadic and operands > shape.operands):
            least = "at least " if shape.variadic else ""
            message = f"{cls.opname} takes {least}{shape.operands} operands, not {operands}"
            self.fail("MC0114", message, token)
        if regions != shape.regions:
            message = f"{cls.opname} has {shape.regions} regions, not {regions}"
            self.fail("MC0114", message, token)

    def check_types(self, op: Op, token: Any) -> None:
        """Compare the types in the text with those inferred."""
        given = self.inner("types", token)
        inferred = tuple([v.type for v in op.results])
        if given != inferred:
            message = f"{op.opname} has the type {_types(inferred)}, not {_types(given)}"
            self.fail("MC0116", message, token)

    def name_results(self, op: Op, token: Any, mine: list[str]) -> None:
        """Bring an op's results into scope under the names given."""
        names = _VALUE.findall(token)
        if len(names) != len(op.results):
            message = f"{op.opname} has {len(op.results)} results, not {len(names)}"
            self.fail("MC0114", message, token)
        for k, (name, value) in enumerate(zip(names, op.results, strict=True)):
            if name in self.scope:
                at = [m.start() for m in _VALUE.finditer(token)][k]
                self.fail("MC0113", f"{name} is defined twice", token, at)
            value.hint = _hint(name)
            self.scope[name] = value
        mine += names

    # Attributes -------------------------------------------------------------------------------

    def pairs(self, token: Any) -> Sequence[tuple[Any, Any]]:
        """Names and values of a dictionary, each name once."""
        pairs: Sequence[tuple[Any, Any]] = self.inner("attributes", token)
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                self.fail("MC0113", f"attribute {name} is given twice", token, name.start_pos)
            seen.add(name)
        return pairs

    def attributes(self, cls: type[Op], name: Any, token: Any) -> dict[str, Any]:
        """All attributes of an op in the order of declaration, defaults filled in."""
        key = (cls, "" if token is None else token.value)
        found = self.completed.get(key)
        if found is not None:
            return found
        declared = self.shape(cls).attributes
        given: dict[str, Any] = {}
        for word, value in self.pairs(token) if token is not None else ():
            if word not in declared:
                hint = did_you_mean(word, declared)
                message = f"{cls.opname} has no attribute {word}"
                self.fail("MC0114", message, token, word.start_pos, hint=hint)
            given[word] = self.resolved(value, token)
        attrs = {k: given.get(k, default) for k, default in declared.items()}
        for key_, value in attrs.items():
            if value is REQUIRED:
                self.fail("MC0114", f"{cls.opname} lacks its attribute {key_}", name)
        self.completed[key] = attrs
        return attrs

    def resolved(self, value: Any, token: Any) -> Any:
        """The value with elided arrays put in."""
        if not isinstance(value, Elided):
            if type(value) is tuple:
                return tuple([self.resolved(v, token) for v in value])
            return value
        if value.digest not in self.resources:
            hint = "pass the arrays that were saved beside the text as `resources`"
            message = f"the array #{value.digest} is missing"
            self.fail("MC0117", message, token, str(token).find(f"#{value.digest}"), hint=hint)
        array = self.resources[value.digest]
        wanted: np.dtype[Any] = value.type.dtype.numpy
        if array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize:
            # .npz files do not know of bfloat16
            array = array.view(wanted)
        literal = Literal(array)
        if literal.digest != value.digest:
            message = f"the array given for #{value.digest} is another"
            self.fail("MC0117", message, token, str(token).find(f"#{value.digest}"))
        return literal


def _hint(name: str) -> str:
    """What a person called the value; nothing where it only has a number."""
    if name[1] == '"':
        return unquote(name[1:])
    return "" if name[1:].isdigit() else str(name[1:])


def _types(types: Sequence[Type]) -> str:
    return ", ".join(map(str, types)) or "nothing"


def _message(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _alternatives(names: Sequence[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
