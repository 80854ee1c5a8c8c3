"""A small writer of textual LLVM IR: appends lines, hands out SSA names, remembers declarations.

Text is what LLVM's parser reads anyway. Appending strings takes about 2 microseconds a line, the
vector mathematics' own Python included; llvmlite's object builder takes 5 to 6. The syntax is that
of the LLVM language reference, version 22: opaque pointers, `splat (float 0x...)` for vector
constants, hexadecimal floats.
"""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

_FLOAT_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


class Vec(NamedTuple):
    """`lanes` values of the LLVM scalar type `element`; one lane is the scalar itself."""

    lanes: int
    element: str

    def __str__(self) -> str:
        return f"<{self.lanes} x {self.element}>" if self.lanes != 1 else self.element

    @property
    def bits(self) -> int:
        """The width of one element in bits."""
        return _FLOAT_BITS.get(self.element) or int(self.element[1:])

    @property
    def is_float(self) -> bool:
        """True for the floating-point elements."""
        return self.element in _FLOAT_BITS

    @property
    def integer(self) -> "Vec":
        """The integer vector of equal shape and width, as bitcasts want it."""
        return Vec(self.lanes, f"i{self.bits}")

    @property
    def mask(self) -> "Vec":
        """The type of a comparison of two such vectors."""
        return Vec(self.lanes, "i1")

    @property
    def suffix(self) -> str:
        """How intrinsics spell the type in their names: `v16f32`, `f64`, `v8i32`."""
        if self.element == "bfloat":
            name = "bf16"
        else:
            name = f"f{self.bits}" if self.is_float else self.element
        return f"v{self.lanes}{name}" if self.lanes != 1 else name


def _pack(form: str, value: float) -> bytes:
    """The value in IEEE format `e` or `f`; what is out of range becomes infinite."""
    try:
        return struct.pack("<" + form, value)
    except OverflowError:
        return struct.pack("<" + form, math.copysign(math.inf, value))


@lru_cache(maxsize=4096)
def _float_constant(element: str, bits: int) -> str:
    """The exact LLVM spelling of the double with these bits, rounded to `element` first."""
    value: float = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    if element == "double":
        return f"0x{bits:016X}"
    if element == "half":
        return f"0xH{struct.unpack('<H', _pack('e', value))[0]:04X}"
    if value != value:  # a NaN: packing as float may drop the payload; the quiet one is meant
        return "0xR7FC0" if element == "bfloat" else "0x7FF8000000000000"
    packed = _pack("f", value)
    if element == "bfloat":
        single: int = struct.unpack("<I", packed)[0]
        single += 0x7FFF + (single >> 16 & 1) if single & 0x7F800000 != 0x7F800000 else 0
        return f"0xR{single >> 16:04X}"
    rounded: float = struct.unpack("<f", packed)[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"


def constant(element: str, value: float | int) -> str:
    """One scalar constant as operand text without its type, exact to the bit for floats."""
    if element not in _FLOAT_BITS:
        return str(int(value))
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    return _float_constant(element, bits)


# (writer, vector type, operands) -> the result of an instruction that is appended
Apply = Callable[["Writer", Vec, Sequence[str]], str]


class Writer:
    """The body of one LLVM function under construction.

    `own` are instructions of the target alone, by what they compute (see `instructions`);
    `has_half` says whether it converts between floats of 16 bits and of 32 by an instruction.
    """

    def __init__(
        self,
        has_fma: bool = False,
        own: Mapping[str, Apply] | None = None,
        has_half: bool = False,
    ) -> None:
        self.has_fma = has_fma
        self.has_half = has_half
        self.own = own or {}
        self.lines: list[str] = []
        self.declares: dict[str, str] = {}
        self.block = "entry"  # the basic block that is being written
        self.kept: list[Callable[[], object]] = []  # how to forget each value kept for later uses
        self._count = 0

    def fresh(self, prefix: str) -> str:
        """A name that no other call returns, without sigil: for labels and, after a `%`, values."""
        self._count += 1
        return f"{prefix}.{self._count}"

    def inst(self, text: str) -> str:
        """Append `%vN = text` and return `%vN`."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def line(self, text: str) -> None:
        """Append an instruction that has no result."""
        self.lines.append(f"  {text}")

    def forget(self, first: int) -> None:
        """Forget the values kept since then: they stand in blocks that may not have run."""
        for forget in self.kept[first:]:
            forget()
        del self.kept[first:]

    def label(self, name: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{name}:")
        self.block = name

    def text(self) -> str:
        """The body so far."""
        return "\n".join(self.lines)

    def declarations(self) -> str:
        """The `declare` lines that the body needs, for the module."""
        return "\n".join(self.declares.values())

    def binary(self, op: str, t: Vec, a: str, b: str) -> str:
        """A two-operand instruction: `fadd`, `mul`, `shl`, `and`, ..."""
        return self.inst(f"{op} {t} {a}, {b}")

    def fma(self, t: Vec, a: str, b: str, c: str) -> str:
        """The sum a * b + c, in one rounding where the target has that, else in two."""
        if self.has_fma:
            return self.intrinsic(f"llvm.fma.{t.suffix}", t, (t, a), (t, b), (t, c))
        return self.binary("fadd", t, self.binary("fmul", t, a, b), c)

    def intrinsic(self, name: str, result: Vec, *arguments: tuple[Vec, str]) -> str:
        """Call the intrinsic by its full name and remember its declaration."""
        if name not in self.declares:
            kinds = ", ".join([str(t) for t, _ in arguments])
            self.declares[name] = f"declare {result} @{name}({kinds})"
        return self.call(name, result, *arguments)

    def call(self, name: str, result: Vec, *arguments: tuple[Vec, str]) -> str:
        """Call a function that the module declares or defines."""
        operands = ", ".join([f"{t} {value}" for t, value in arguments])
        return self.inst(f"call {result} @{name}({operands})")

    def splat(self, t: Vec, value: float | int) -> str:
        """The constant with `value` in every lane, as operand text; emits nothing."""
        text = constant(t.element, value)
        return text if t.lanes == 1 else f"splat ({t.element} {text})"

    def any(self, t: Vec, mask: str) -> str:
        """Whether any bit of a mask is set, as an i1."""
        if t.lanes == 1:
            return mask
        whole = Vec(1, f"i{t.lanes}")
        return self.compare("ne", whole, self.bitcast(t.mask, mask, whole), "0")

    def phi(self, t: Vec, a: str, before: str, b: str, after: str) -> str:
        """`a` where the block `before` came last, `b` where `after` did."""
        return self.inst(f"phi {t} [ {a}, %{before} ], [ {b}, %{after} ]")

    def select(self, t: Vec, mask: str, a: str, b: str) -> str:
        """`a` where the mask is set, `b` elsewhere, lane by lane."""
        return self.inst(f"select {t.mask} {mask}, {t} {a}, {t} {b}")

    def bitcast(self, source: Vec, value: str, to: Vec) -> str:
        """The same bits as another type of equal size."""
        return self.inst(f"bitcast {source} {value} to {to}")

    def compare(self, predicate: str, t: Vec, a: str, b: str) -> str:
        """`fcmp` or `icmp`, by the type; `predicate` is LLVM's (`olt`, `une`, `slt`, ...)."""
        return self.inst(f"{'fcmp' if t.is_float else 'icmp'} {predicate} {t} {a}, {b}")

    def convert(self, op: str, source: Vec, value: str, to: Vec) -> str:
        """A conversion that changes bits: `fptrunc`, `fpext`, `sitofp`, `zext`, ..."""
        return self.inst(f"{op} {source} {value} to {to}")
