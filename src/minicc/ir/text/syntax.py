"""What each rule of `grammar.lark` means: lark calls these methods while it parses.

Rules of a module, function, op and region give tuples of tokens and of such tuples, which
`ir.text.parser` builds into the IR; the rules within a token give the values themselves.
"""

from __future__ import annotations

import re
import struct
from typing import Any, NamedTuple

import numpy as np

from minicc.ir import affine
from minicc.ir.affine import Dim, Expr
from minicc.ir.core import Literal
from minicc.ir.reals import Real
from minicc.ir.schedule import schedule_of
from minicc.ir.space import KINDS, Iter, Space
from minicc.ir.types import BufferType, DType, TensorType, Type, dtype

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_MEANINGS = {"n": "\n", "t": "\t", "r": "\r"}


class Elided(NamedTuple):
    """An array of which the text gives the type and the digest alone."""

    type: TensorType
    digest: str


class _Digest(str):
    """The digest of an elided array."""

    __slots__ = ()


class Argument(NamedTuple):
    """An argument of a function or region: the token of its name, and its type."""

    name: Any
    type: Type


def unquote(text: str) -> str:
    """The string that a quoted token stands for, whichever quotes it has."""
    inner = text[1:-1]
    return _ESCAPE.sub(_unescape, inner) if "\\" in inner else inner


def _unescape(match: re.Match[str]) -> str:
    code = match.group(1)
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _MEANINGS.get(code, code)


class Refused(ValueError):
    """Something well-formed that means nothing; `at` is where, in characters from the start."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


def _dtype(word: Any) -> DType:
    try:
        return dtype(word)
    except KeyError:
        raise Refused(f"no element type is called {word}", word.start_pos) from None


def _divisor(divisor: Any) -> Dim:
    if isinstance(divisor, Expr):
        return divisor
    if number := int(divisor):
        return number
    raise Refused("the divisor is zero", getattr(divisor, "start_pos", 0))


class Syntax:
    """One method a rule, called with the list of what its parts mean."""

    def collected(self, parts: list[Any]) -> Any:
        """The parts in order."""
        return tuple(parts)

    # Coarse: the parser reads them as tuples.
    module = collected
    inputs = collected
    outputs = collected
    output = collected
    op = collected

    def function(self, parts: list[Any]) -> Any:
        symbol, inputs, outputs, attributes, *ops, yields = parts
        return symbol, inputs, outputs, attributes, ops, yields

    def region(self, parts: list[Any]) -> Any:
        arguments, *ops, yields = parts
        return arguments, ops, yields

    def yields(self, parts: list[Any]) -> Any:
        return parts[0]

    # Within a token: lists.
    types = collected
    attributes = collected
    attribute = collected
    sequence = collected
    dims = collected
    iters = collected
    schedules = collected
    scheduled = collected
    elements = collected

    def arguments(self, parts: list[Any]) -> Any:
        return parts[0]

    def argument(self, parts: list[Any]) -> Any:
        return Argument(*parts)

    def locations(self, parts: list[Any]) -> Any:
        return tuple([unquote(p) for p in parts])

    # Attributes.

    def true(self, _: list[Any]) -> Any:
        return True

    def false(self, _: list[Any]) -> Any:
        return False

    def none(self, _: list[Any]) -> Any:
        return None

    def string(self, parts: list[Any]) -> Any:
        return unquote(parts[0])

    def number(self, parts: list[Any]) -> Any:
        return float(parts[0])

    def bits(self, parts: list[Any]) -> Any:
        return struct.unpack(">d", bytes.fromhex(parts[0][6:-1]))[0]

    def type_attribute(self, parts: list[Any]) -> Any:
        return parts[0]

    def element(self, parts: list[Any]) -> Any:
        return _dtype(parts[0])

    def space(self, parts: list[Any]) -> Any:
        pairs = zip(KINDS, parts, strict=True)
        return Space(Iter(name, n, kind) for kind, dims in pairs for name, n in dims or ())

    def dimension(self, parts: list[Any]) -> Any:
        (((name,), _),) = parts[0].terms
        return name, parts[1]

    def schedule(self, parts: list[Any]) -> Any:
        return schedule_of((str(name), value) for name, value in parts)

    # Types.

    def tensor(self, parts: list[Any]) -> Any:
        word, dims = parts
        return TensorType(_dtype(word), dims or ())

    def buffer(self, parts: list[Any]) -> Any:
        word, dims, strides = parts
        if strides is not None and len(strides) != len(dims or ()):
            message = f"a buffer of {len(dims or ())} dimensions has {len(strides)} strides"
            raise Refused(message, word.start_pos)
        return BufferType(_dtype(word), dims or (), strides)

    # Arrays.

    def literal(self, parts: list[Any]) -> Any:
        word, dims, payload = parts
        type = TensorType(_dtype(word), dims or ())
        if isinstance(payload, _Digest):
            return Elided(type, payload)
        try:
            if isinstance(payload, bytes):
                array = np.frombuffer(payload, type.dtype.numpy)
            else:
                array = np.array(payload, type.dtype.numpy)
            return Literal(array.reshape(type.extents))
        except (ValueError, OverflowError) as error:
            raise Refused(f"no {type}: {error}", word.start_pos) from None

    def raw(self, parts: list[Any]) -> Any:
        return bytes.fromhex(parts[0][2:])

    def digest(self, parts: list[Any]) -> Any:
        return _Digest(parts[0][1:])

    # Expressions.

    def integer(self, parts: list[Any]) -> Any:
        return int(parts[0])

    def negative(self, parts: list[Any]) -> Any:
        return -int(parts[0])

    def symbol(self, parts: list[Any]) -> Any:
        (token,) = parts
        return affine.symbol(unquote(token) if token[0] == "'" else str(token))

    def minus(self, parts: list[Dim]) -> Any:
        return affine.multiply(parts[0], -1)

    def plus(self, parts: list[Dim]) -> Any:
        return affine.add(*parts)

    def difference(self, parts: list[Dim]) -> Any:
        return affine.add(parts[0], affine.multiply(parts[1], -1))

    def product(self, parts: list[Dim]) -> Any:
        return affine.multiply(*parts)

    def floordiv(self, parts: list[Any]) -> Any:
        return affine.floordiv(parts[0], _divisor(parts[1]))

    def mod(self, parts: list[Any]) -> Any:
        return affine.mod(parts[0], _divisor(parts[1]))

    def minimum(self, parts: list[Dim]) -> Any:
        return affine.minimum(*parts)

    def whole(self, parts: list[Real]) -> Any:
        return affine.whole(*parts)

    def leaf(self, parts: list[Any]) -> Any:
        return Real(str(parts[0]), parts[1])

    def real(self, parts: list[Any]) -> Any:
        word, *args = parts
        try:
            return Real(str(word), *args)
        except ValueError as error:
            raise Refused(str(error), word.start_pos) from None
