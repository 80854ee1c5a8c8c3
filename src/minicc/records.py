"""What each layer mirrors in real systems: one frozen record a layer, read from `records.toml`.

A record says which systems have the layer, what it is called there, where it stands, and in which
file, at the version that was read; how ours differs; and what theirs can do that ours can't. It is
shown at the head of every dump and printed level, and by `minicc layers`.
"""

from __future__ import annotations

import textwrap
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
_WIDTH = 97  # of a line of a head, after its mark


@dataclass(frozen=True, slots=True)
class Mirror:
    """A layer of another system: its name, where it stands, and the source that was read."""

    system: str
    name: str
    place: str
    repository: str
    version: str
    path: str

    def __str__(self) -> str:
        source = f"{self.repository}@{self.version}:{self.path}"
        return f"{self.system}: {self.name}; {self.place} ({source})"


@dataclass(frozen=True, slots=True)
class Record:
    """A layer of ours.

    `home` is the file that leads it and `files` are others, or folders, from the package's folder
    on; `differs` and `beyond` are a sentence each.
    """

    part: str
    home: str
    files: tuple[str, ...]
    mirrors: tuple[Mirror, ...]
    differs: str
    beyond: str

    @property
    def module(self) -> str:
        """The name of the leading module."""
        return ".".join(["minicc", *self.home.removesuffix(".py").split("/")]).removesuffix(
            ".__init__"
        )

    def lines(self) -> list[str]:
        """What the record says, a line a system and one for each sentence."""
        mirrored = [f"mirrors {m}" for m in self.mirrors]
        return [*mirrored, f"differs: {self.differs}", f"beyond: {self.beyond}"]

    def head(self) -> str:
        """The lines as comments of a module's text."""
        wrapped = (
            textwrap.wrap(
                line, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
            )
            for line in self.lines()
        )
        return "".join(f"// {line}\n" for lines in wrapped for line in lines)


@cache
def records() -> tuple[Record, ...]:
    """All records, from the interfaces down to what shows the others."""
    with open(HERE / "records.toml", "rb") as file:
        told = tomllib.load(file)["record"]
    return tuple(_record(**fields) for fields in told)


def _record(
    part: str,
    home: str,
    mirrors: list[list[str]],
    differs: str,
    beyond: str,
    files: tuple[str, ...] | list[str] = (),
) -> Record:
    return Record(part, home, tuple(files), tuple(_mirror(*m) for m in mirrors), differs, beyond)


def _mirror(system: str, name: str, place: str, source: str) -> Mirror:
    repository, _, rest = source.partition("@")
    version, _, path = rest.partition(":")
    return Mirror(system, name, place, repository, version, path)


def record_of(module_name: str) -> Record:
    """The record that a module leads; KeyError where it leads none."""
    return {record.module: record for record in records()}[module_name]
