"""Models and inputs on the command line: `FILE.py:FUNCTION`, `x=@x.npy`, `--shape x=1x3x8x8`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from minicc.api.inputs import Signature, check_names
from minicc.api.session import InferenceSession
from minicc.cli.progress import Progress
from minicc.errors import Problems, UserError
from minicc.ir.arrays import Array
from minicc.ir.text.extents import extents_of
from minicc.ir.types import DTYPES, INDEX, STORED
from minicc.later import Later
from minicc.limits import require_array_fits
from minicc.options import Options
from minicc.runtime.programs import is_program

if TYPE_CHECKING:
    from minicc.ir import affine
else:
    affine = Later("minicc.ir.affine")

RANDOM = "random"
_SPELLED = re.compile(r"(?P<dtype>\w+)(\[(?P<shape>[\d,\s]*)\])?=(?P<value>.+)")


def is_function(path: str) -> bool:
    """Whether a model is named as a function of a Python file."""
    file, _, name = path.rpartition(":")
    return file.endswith(".py") and name.isidentifier()


def parse_inputs(texts: Sequence[str], option: str = "--input") -> dict[str, Array]:
    """Arrays by name, none for `x=random`; UserError lists every text that can't be read."""
    problems = Problems()
    arrays: dict[str, Array] = {}
    for text in texts:
        with problems.catch():
            name, found, value = text.partition("=")
            if not found:
                raise _wrong(text, option)
            if value.startswith("@"):
                arrays[name] = _load(value[1:], option)
            elif value != RANDOM:
                arrays[name] = _spelled(text, value, option)
    problems.check()
    return arrays


def _wrong(text: str, option: str) -> UserError:
    return UserError(
        "MC0150",
        f"{option} {text!r} is not understood",
        hint=f"write {option} x=@x.npy, {option} x=f32[1,3,4]=0.5, or --input x=random",
    )


def _load(path: str, option: str) -> Array:
    import zipfile

    try:
        with open(path, "rb") as file:
            array = np.load(file, allow_pickle=False)
    except OSError as error:
        raise UserError("MC0151", f"can't read the array {path}: {error.strerror}") from error
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise UserError("MC0151", f"{path} is no .npy file of numbers") from None
    if not isinstance(array, np.ndarray):
        message = f"{path} is an archive, and {option} takes one array"
        raise UserError("MC0151", message, hint="write the array with numpy.save")
    return array


def _spelled(text: str, value: str, option: str) -> Array:
    match = _SPELLED.fullmatch(value)
    element = DTYPES.get(match["dtype"]) if match else None
    if match is None or element is None or element in (INDEX, *STORED):
        raise _wrong(text, option)
    extents = [int(n) for n in (match["shape"] or "").split(",") if n.strip()]
    try:
        numbers = [float(x) if element.is_float else int(x) for x in match["value"].split(",")]
        filled = np.array(numbers, element.numpy)
        return np.broadcast_to(filled[0] if filled.size == 1 else filled.reshape(extents), extents)
    except (ValueError, OverflowError) as error:
        raise UserError("MC0152", f"{option} {text!r}: {error}") from error


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Shapes by input name from `x=1x3x224x224`."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, found, value = text.partition("=")
        if not found or not re.fullmatch(r"(\d+(x\d+)*)?", value):
            raise UserError(
                "MC0153", f"--shape {text!r} is not understood", hint="write --shape x=1x3x224x224"
            )
        shapes[name] = tuple(int(n) for n in value.split("x") if n)
    return shapes


def opened(
    model: str,
    options: Options,
    inputs: Sequence[str],
    shapes: dict[str, tuple[int, ...]],
    progress: Progress,
) -> tuple[InferenceSession, dict[str, Array]]:
    """A session of a model, and its inputs: those that are given, and random ones."""
    given = parse_inputs(inputs)
    session = bound_session(model, options, shapes)
    with progress.aside():
        return session, complete_inputs(session.signature, given, shapes, options.memory_limit)


def bound_session(
    model: str, options: Options, shapes: dict[str, tuple[int, ...]]
) -> InferenceSession:
    """A session of a model whose free dimensions have the sizes that shapes of inputs imply."""
    if options.schedules and is_program(model):
        raise click.UsageError("a program is compiled: schedules are of a model")
    # schedules are for the sizes that are bound
    first = options.replace(schedules="") if shapes else options
    session = InferenceSession(model, options=first)
    # an input of no known rank has no free dimensions to bind ahead
    ranked = {name: shape for name, shape in shapes.items() if _has_rank(session.signature, name)}
    sizes = bind_shapes(session.signature, ranked)
    if is_program(model) or (first == options and not sizes):
        return session
    return InferenceSession(model, options=options.replace(sizes=sizes))


def _has_rank(signature: Signature, name: str) -> bool:
    return all(type is not None for given, type in signature if given == name)


def bind_shapes(signature: Signature, shapes: dict[str, tuple[int, ...]]) -> dict[str, int]:
    """The sizes of free dimensions that shapes of inputs imply.

    UserError where they don't fit the model.
    """
    problems = Problems()
    binding: dict[str, int] = {}
    check_names(signature, shapes, problems)
    for name, type in signature:
        shape = shapes.get(name)
        if shape is None:
            continue
        if type is None:
            binding |= extents_of(name, shape)
            continue
        fits = len(shape) == type.rank
        for extent, n in zip(type.shape, shape, strict=False):
            if isinstance(extent, int):
                fits &= extent == n
            elif extent.is_atom():
                fits &= binding.setdefault(next(iter(extent.symbols())), n) == n
        if not fits:
            given = "x".join(map(str, shape)) or "a scalar"
            problems.add(UserError("MC0141", f"the input {name!r} is {given}, and must be {type}"))
    problems.check()
    return binding


def random_input(type: Any, binding: dict[str, int], seed: int, limit: int) -> Array | None:
    """A seeded array of a type; None where a dimension is still free.

    UserError where it takes more bytes than the limit.
    """
    shape = [n if isinstance(n, int) else affine.substitute(n, binding) for n in type.shape]
    if not all(isinstance(n, int) for n in shape):
        return None
    count = prod(int(str(n)) for n in shape)
    require_array_fits(8 * count, limit, f"a random {type.dtype}{shape}")
    rng = np.random.default_rng(seed)
    element = type.dtype
    if element.is_float:
        return rng.random(shape).astype(element.numpy)  # type: ignore[arg-type]  # all are numbers
    return rng.integers(0, 2, shape).astype(element.numpy)  # type: ignore[arg-type]


def complete_inputs(
    signature: Signature,
    given: dict[str, Array],
    shapes: dict[str, tuple[int, ...]],
    limit: int,
) -> dict[str, Array]:
    """The inputs with random ones for those that are missing.

    UserError where a shape is not known, or a random one is larger than the limit.
    """
    binding = bind_shapes(signature, {name: a.shape for name, a in given.items()} | shapes)
    feed = dict(given)
    for k, (name, type) in enumerate(signature):
        if name in feed:
            continue
        array = None if type is None else random_input(type, binding, k, limit)
        if array is None:
            random = f", or --shape {name}=1x3x8x8 for a random one" if type else ""
            kind = type or "of any rank"
            text = f"the input {name!r} ({kind}) is not given, and its shape is not known"
            raise UserError("MC0155", text, hint=f"--input {name}=@file.npy{random}")
        click.echo(f"input {name}: {RANDOM} (seed {k}), {array.dtype}{list(array.shape)}", err=True)
        feed[name] = array
    return feed
