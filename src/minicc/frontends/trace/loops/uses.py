"""What a function does with a list that an instruction reads by a name."""

from __future__ import annotations

import dis
import types
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from minicc.frontends.trace.loops.flow import codes_within, instructions
from minicc.frontends.trace.loops.liveness import local

Use = Literal["adds", "looks", "takes", "sets", "sets one", "other"]

_ADDS = ("append", "extend")
_TESTS = ("POP_JUMP", "UNARY_NOT", "TO_BOOL")
# instructions of a key, each of which leaves at most one value in place of those that it takes
_OF_KEYS = ("LOAD_", "PUSH_NULL", "BINARY_OP", "BINARY_SUBSCR", "UNARY_NEGATIVE", "PRECALL", "CALL")


def use_at(steps: Sequence[dis.Instruction], n: int) -> Use:
    """What is done with the list that an instruction reads: it `adds` to it, or `looks` at it.

    It looks where it asks for the length, whether there are elements, or for one that is always the
    same. It `takes` an element that a key says, `sets` such a one, or `sets one` that is always the
    same.
    """
    if (len(local(steps[n])[0]) != 1 and steps[n].opname != "LOAD_GLOBAL") or n + 1 >= len(steps):
        return "other"  # an instruction that reads two names
    after = steps[n + 1]
    if after.opname in ("LOAD_METHOD", "LOAD_ATTR") and after.argval in _ADDS:
        return "adds"
    if after.opname.startswith(_TESTS) or _is_length(steps, n):
        return "looks"
    at = _after_key(steps, n)
    one = at == n + 2 and after.opname == "LOAD_CONST"
    if _takes_element(steps[at]):
        return "looks" if one else "takes"
    if _sets_element(steps, at):
        return "sets one" if one else "sets"
    return "other"


@lru_cache(1 << 12)
def is_added_to(code: types.CodeType, at: int) -> bool:
    """Whether what the instruction at a place gives is a list to which the code appends at once."""
    steps = instructions(code)
    n = next(k for k, step in enumerate(steps) if step.offset == at)
    after = steps[n + 1] if n + 1 < len(steps) else steps[n]
    return after.opname in ("LOAD_METHOD", "LOAD_ATTR") and after.argval == "append"


@lru_cache(1 << 12)
def from_end(code: types.CodeType, at: int) -> int:
    """How far from the end the element lies that code takes at once of a list; 0 if it does not."""
    steps = instructions(code)
    n = next(k for k, step in enumerate(steps) if step.offset == at)
    key, takes = (*steps[n + 1 : n + 3], steps[n], steps[n])[:2]
    known = key.opname == "LOAD_CONST" and type(key.argval) is int and _takes_element(takes)
    return max(-key.argval, 0) if known else 0


@lru_cache(1 << 12)
def is_only_added_to(code: types.CodeType, name: str) -> bool:
    """Whether a function does nothing but append to a list that it reads from around it."""
    codes = [*codes_within(code)]
    found = [(c, s) for c in codes for s in instructions(c) if _names(s, name)]
    inner = len(codes) > 1 and any(name in c.co_freevars for c in codes[1:])
    return not inner and all(is_added_to(c, step.offset) for c, step in found)


def _names(step: dis.Instruction, name: str) -> bool:
    """Whether an instruction has a name that is no attribute's."""
    return step.argval == name and step.opname.endswith(("_GLOBAL", "_NAME", "_DEREF", "_CLOSURE"))


def _is_length(steps: Sequence[dis.Instruction], n: int) -> bool:
    """Whether an instruction reads the one argument of `len`."""
    before = steps[n - 2] if n > 1 and steps[n - 1].opname == "PUSH_NULL" else steps[n - 1]
    call = steps[n + 2] if n + 2 < len(steps) and steps[n + 1].opname == "PRECALL" else steps[n + 1]
    of_len = before.opname == "LOAD_GLOBAL" and before.argval == "len"
    return of_len and call.opname == "CALL" and call.arg == 1


def _after_key(steps: Sequence[dis.Instruction], n: int) -> int:
    """Which instruction uses what one reads and a key that is plain enough; the first if none."""
    depth = 1  # values on the stack from the list on
    for k, step in enumerate(steps[n + 1 :], n + 1):
        if depth == 2 and (_takes_element(step) or _sets_element(steps, k)):
            return k
        arg = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
        effect = dis.stack_effect(step.opcode, arg, jump=False)
        if not step.opname.startswith(_OF_KEYS) or depth <= 1 - effect:
            break
        depth += effect
    return n


def _takes_element(step: dis.Instruction) -> bool:
    return step.opname == "BINARY_SUBSCR" or (step.opname == "BINARY_OP" and step.argrepr == "[]")


def _sets_element(steps: Sequence[dis.Instruction], n: int) -> bool:
    """Whether an instruction sets an element, or begins to take one that is set after that."""
    if steps[n].opname == "STORE_SUBSCR":
        return True
    copies = [s.opname == "COPY" and s.arg == 2 for s in steps[n : n + 2]]
    return copies == [True, True] and _takes_element(steps[n + 2])
