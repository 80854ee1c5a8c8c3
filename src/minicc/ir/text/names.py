"""Names of symbols as texts of the IR have them."""

from __future__ import annotations

import re
from functools import lru_cache

# Words that mean something else where a symbol may stand in text.
_RESERVED = frozenset(
    {"dense", "false", "floordiv", "inf", "min", "mod", "nan", "none", "true", "trunc"}
)
_PLAIN = re.compile(r"\$?[A-Za-z_][A-Za-z0-9_]*")


@lru_cache(4096)
def spell(name: str) -> str:
    """A symbol's name as text: as it is where it is a plain word, else in single quotes."""
    if _PLAIN.fullmatch(name) and name not in _RESERVED:
        return name
    quoted = "".join(c if c.isprintable() and c not in "'\"\\{}" else escape(c) for c in name)
    return f"'{quoted}'"


def escape(character: str) -> str:
    """A character by its number in hexadecimal, as Python escapes it: four digits or eight."""
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
