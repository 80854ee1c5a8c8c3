"""Objects to one image: a linker for what LLVM makes of our kernels, and for nothing else.

An object has code (`.text`) and constants (`.rodata*`), and refers to both, to other objects and to
the C library by 32-bit offsets from the program counter alone. It may leave numbers open, which are
written when it is linked. So an image needs no relocation
where it is loaded: all offsets within it are resolved here, and a function from outside is called
through a stub that jumps to an address in a table of the loader's (`runtime.image`).

The code of an image begins after that table. What stands in an object that LLVM has no reason to
make of our code (other relocations, writable data, thread-local data) is refused as a bug of ours.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from minicc.backends.base import OUTSIDE, TABLE_BYTES, Image
from minicc.backends.llvm.isa.system import JUMP, MACHINE, NEAR, NUMBERS, STUB, TRAP
from minicc.errors import CompilerBug

# ELF, as far as our objects have it
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_IDENT = b"\x7fELF\x02\x01\x01"
_RELOCATABLE = 1
_PROGBITS, _SYMBOLS, _RELOCATIONS, _REL, _UNWIND = 1, 2, 4, 9, 0x70000001
_WRITE, _ALLOC, _THREADS = 1, 2, 1 << 10
_UNDEFINED, _RESERVED = 0, 0xFF00
_GLOBAL = 1


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class Object(NamedTuple):
    """An object as LLVM made it, what its symbols are called here, and numbers that it refers to.

    It may be linked more than once, under other names and with other numbers.
    """

    code: bytes
    names: Mapping[str, str] = {}
    numbers: Mapping[str, int] = {}


class _Parsed:
    """An object file: its sections, those that are loaded, and the tables of its symbols."""

    def __init__(self, object_: Object) -> None:
        self.names, self.numbers = object_.names, object_.numbers
        self.data = data = object_.code
        head = _HEADER.unpack_from(data)
        if head[0][: len(_IDENT)] != _IDENT or head[1:3] != (_RELOCATABLE, MACHINE):
            raise _bug("an object is no relocatable ELF of this machine")
        start, count = head[6], head[12]
        rows = _SECTION.iter_unpack(data[start : start + _SECTION.size * count])
        self.sections = [_Section(*row) for row in rows]
        for s in self.sections:
            if s.type == _REL or not self._known(s):
                name = self.text(self.sections[head[13]], s.name)
                raise _bug(f"an object has the section {name} of type {s.type}, flags {s.flags:#x}")
        # nothing unwinds our code
        loaded = ((k, s) for k, s in enumerate(self.sections) if s.type != _UNWIND)
        self.loaded = [k for k, s in loaded if s.flags & _ALLOC and s.size]
        tables = [s for s in self.sections if s.type == _SYMBOLS]
        self.symbols: list[tuple[int, ...]] = []
        self.strings = self.sections[tables[0].link] if tables else None
        for table in tables:
            self.symbols = list(_SYMBOL.iter_unpack(self.bytes(table)))

    @staticmethod
    def _known(s: _Section) -> bool:
        plain = s.type in (_PROGBITS, _UNWIND) and not s.flags & (_WRITE | _THREADS)
        return plain or not s.size or not s.flags & _ALLOC

    def bytes(self, s: _Section) -> bytes:
        return self.data[s.offset : s.offset + s.size]

    def text(self, strings: _Section, at: int) -> str:
        start = strings.offset + at
        return self.data[start : self.data.index(b"\0", start)].decode()

    def name(self, symbol: tuple[int, ...]) -> str:
        assert self.strings is not None
        name = self.text(self.strings, symbol[0])
        return self.names.get(name, name)


class _Linker:
    """The code so far, where each symbol lies in it, and which stubs it needs."""

    def __init__(self) -> None:
        self.code = bytearray()
        self.defined: dict[str, int] = {}
        self.stubs: dict[str, int] = {}
        self.places: list[dict[int, int]] = []

    def place(self, part: _Parsed) -> None:
        """Append the sections of an object, and note the functions that it defines."""
        places: dict[int, int] = {}
        for k in part.loaded:
            s = part.sections[k]
            self.align(max(1, s.align))
            places[k] = len(self.code)
            self.code += part.bytes(s)
        self.places.append(places)
        for symbol in part.symbols:
            if symbol[1] >> 4 >= _GLOBAL and _UNDEFINED != symbol[3] < _RESERVED:
                name = part.name(symbol)
                if name in self.defined:
                    raise _bug(f"{name} is defined twice")
                self.defined[name] = places[symbol[3]] + symbol[4]

    def align(self, bytes_: int) -> None:
        """Pad with instructions that trap, which nothing ever reaches."""
        self.code += TRAP * (-len(self.code) % bytes_)

    def target(self, part: _Parsed, places: dict[int, int], symbol: tuple[int, ...]) -> int:
        """Where in the code a symbol of an object lies: itself, or a stub for it."""
        if symbol[3] in places:
            return places[symbol[3]] + symbol[4]
        name = part.name(symbol)
        if name in self.defined:
            return self.defined[name]
        if symbol[3] != _UNDEFINED or name not in OUTSIDE:
            raise _bug(f"{name} is not defined, and is no function that images may call")
        if name not in self.stubs:
            number = len(self.stubs)
            self.align(STUB.size)
            self.stubs[name] = len(self.code)
            slot = 8 * number - TABLE_BYTES
            self.code += STUB.pack(JUMP, slot - (len(self.code) + 6))
        return self.stubs[name]

    def resolve(self, part: _Parsed, places: dict[int, int]) -> None:
        """Write the offsets that an object's relocations ask for."""
        for table in part.sections:
            if table.type != _RELOCATIONS or table.info not in places:
                continue
            base = places[table.info]
            for at, info, addend in _RELOCATION.iter_unpack(part.bytes(table)):
                kind, symbol = info & 0xFFFFFFFF, part.symbols[info >> 32]
                place, name = base + at, part.name(symbol)
                if kind in NUMBERS and name in part.numbers:
                    struct.pack_into(NUMBERS[kind], self.code, place, part.numbers[name] + addend)
                elif kind in NEAR and name not in part.numbers:
                    offset = self.target(part, places, symbol) + addend - place
                    struct.pack_into("<i", self.code, place, offset)
                else:
                    raise _bug(f"relocation {kind} of {name or 'a section'}")


def link(objects: Sequence[Object], symbols: Sequence[str]) -> Image:
    """Link object files to an image in which `symbols` can be found.

    Objects may call each other's functions and those of `OUTSIDE`. Raises `CompilerBug` for a
    symbol that is missing or defined twice, and for what no object of ours has.
    """
    linker = _Linker()
    parts = [_Parsed(found) for found in objects]
    for part in parts:
        linker.place(part)
    for part, places in zip(parts, linker.places, strict=True):
        linker.resolve(part, places)
    missing = [name for name in symbols if name not in linker.defined]
    if missing:
        raise _bug(f"nothing defines {', '.join(missing)}")
    found = {name: linker.defined[name] for name in symbols}
    return Image(bytes(linker.code), found, tuple(linker.stubs))


def _bug(problem: str) -> CompilerBug:
    return CompilerBug("MC0302", f"the objects do not link: {problem}", stage="link")
