"""A compiled program as data: what runs, what it takes and gives, and how that stands in a file.

`Built` is what compiling gives, whether it is run at once or written: machine code with its layout,
ops of the host between, and which values pass from one to the other. A file also has a signature
and what a report says. Opening one imports nothing of the compiler; ops of the host, which few
programs have, bring their definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from minicc.backends.base import Executable, Image
from minicc.backends.layout import Check, Layout
from minicc.errors import UserError
from minicc.ir.arrays import Array
from minicc.ir.text.extents import dim_of, is_content, spelled
from minicc.ir.types import DType, TensorType, dtype, is_free, tensor_of
from minicc.later import Later
from minicc.limits import require_array_fits
from minicc.options import Options
from minicc.runtime.container import Container, Place, damaged, places_of, write
from minicc.runtime.execute import NativeExecutable
from minicc.runtime.pipeline import Pipeline, Step
from minicc.target import MACHINES
from minicc.wording import counted

if TYPE_CHECKING:
    from minicc.ir.core import Function
    from minicc.runtime import host_ops
else:
    host_ops = Later("minicc.runtime.host_ops")


class Segment(NamedTuple):
    """A stretch of a program that is one native function, and the values it takes and gives."""

    image: Image
    layout: Layout
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Host(NamedTuple):
    """Ops that run on the host, as a graph function, and the values it takes and gives."""

    function: Function
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Control(NamedTuple):
    """A loop or branch that the host runs, and the values it takes and gives.

    `function` is that op alone, over regions that say no more than types; `bodies` are what runs
    in place of them.
    """

    function: Function
    bodies: tuple[Built, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


Part = Segment | Host | Control


class Built(NamedTuple):
    """A program as data; values have numbers, and `constants` are those that parts share.

    `types` are those of `args`, the inputs.
    """

    args: tuple[int, ...]
    types: tuple[TensorType, ...]
    results: tuple[int, ...]
    steps: tuple[Part, ...]
    constants: Mapping[int, Array]

    def segments(self) -> Iterator[Segment]:
        """All native stretches, those of loops and branches included."""
        for step in self.steps:
            if isinstance(step, Segment):
                yield step
            elif isinstance(step, Control):
                for body in step.bodies:
                    yield from body.segments()

    def bytes(self) -> int:
        """What arenas, constants and outputs take, as far as that does not depend on sizes."""
        layouts = [segment.layout for segment in self.segments()]
        constants = sum(a.nbytes for layout in layouts for a in layout.constants)
        outputs = (t for layout in layouts for t in layout.outputs if not is_free(t.shape))
        arenas = sum(m.arena for m in layouts if isinstance(m.arena, int))
        return arenas + constants + sum(prod(t.extents) * t.dtype.bytes for t in outputs)


class OnHost(NamedTuple):
    """An op that runs on the host: its name, the nodes that it is for, and why."""

    op: str
    where: str
    why: str


class Compilation(NamedTuple):
    """What compiling one specialisation gave: what runs, seconds by stage, what is on the host."""

    executable: Executable
    seconds: Mapping[str, float]
    kernels: int
    launches: int
    host: tuple[OnHost, ...] = ()

    def told(self, shapes: str, target: str) -> list[str]:
        """Lines for people: its size, its seconds, its guards, what runs on the host."""
        seconds = dict(self.seconds)
        llvm = seconds.pop("llvm", 0.0)
        own = sum(seconds.values())
        took = f", passes {own * 1e3:.0f} ms, LLVM {llvm * 1e3:.0f} ms" if seconds else ""
        size = (
            f"{counted(self.launches, 'launch', 'launches')} of {counted(self.kernels, 'kernel')}"
        )
        return [
            f"{shapes}: {size}, target {target}{took}",
            *(f"  where {guard}" for guard in self.executable.guards()),
            *(f"  on the host: {on.where}: {on.why}" for on in self.host),
        ]


class Facts(NamedTuple):
    """What is known of a program beside what runs, for who uses it and for people.

    `inputs` have no type where any value will do, `symbols` are its free dimensions, `sizes`
    those that they had when it was compiled, `wants` those with which less would run on the host;
    `decisive` are inputs of few numbers of which the same is true.
    `ops` counts those of the graph; `sized` says whether this stands only when all sizes are known.
    `declared` is what the model declares of inputs, outputs and initialisers that are inputs too:
    shape (None for a dimension of neither number nor name), type as ONNX spells it, and element
    type ("" for none). `about` is what its file says about itself (see `about_of`).
    """

    inputs: tuple[tuple[str, TensorType | None], ...]
    outputs: tuple[tuple[str, TensorType | None], ...]
    symbols: tuple[str, ...]
    math: str
    ops: int
    sized: bool = False
    wants: tuple[str, ...] = ()
    decisive: tuple[str, ...] = ()
    declared: Mapping[str, tuple[Sequence[int | str | None], str, str]] = {}
    about: Mapping[str, Any] = {}
    sizes: Mapping[str, int] = {}
    seconds: Mapping[str, float] = {}
    kernels: int = 0
    launches: int = 0
    host: tuple[OnHost, ...] = ()

    def elements(self) -> dict[str, DType]:
        """The element types of inputs that have no type."""
        said = self.declared
        names = (name for name, type in self.inputs if type is None)
        return {name: dtype(said[name][2]) for name in names if name in said and said[name][2]}


def executable_of(built: Built, options: Options) -> Executable:
    """What runs a program as options say that do not decide its code."""
    limit = options.memory_limit

    def native(s: Segment) -> NativeExecutable:
        return NativeExecutable(
            s.image,
            s.layout,
            options.threads,
            limit,
            spin=options.spin,
            limits=options.limits,
        )

    first = built.steps[0] if built.steps else None
    if len(built.steps) == 1 and isinstance(first, Segment) and _is_all(built, first):
        return native(first)
    natives: list[NativeExecutable] = []

    def close() -> None:
        for executable in natives:
            executable.close()

    def pipeline(built: Built) -> Pipeline:
        steps: list[Step] = []
        here: list[NativeExecutable] = []
        for step in built.steps:
            passed = (step.inputs, step.outputs)
            if isinstance(step, Segment):
                here.append(native(step))
                steps.append(Step(here[-1].run, *passed, True))
            elif isinstance(step, Host):
                steps.append(Step(host_ops.runner(step.function, limit), *passed, False))
            else:
                bodies = [pipeline(body).values for body in step.bodies]
                run = host_ops.run_control(step.function, bodies, limit, options.limits)
                steps.append(Step(run, *passed, False))
        natives.extend(here)
        fits = [executable.may_fit for executable in here]
        shared = any(executable.is_shared() for executable in natives)
        args, results = (built.args, built.results)
        return Pipeline(args, built.types, results, steps, built.constants, fits, shared, close)

    return pipeline(built)


def _is_all(built: Built, only: Segment) -> bool:
    return only.inputs == built.args and only.outputs == built.results


# ---- to a file ---------------------------------------------------------------------------------


class _Keeper:
    """Gathers the arrays that a file will hold, each once."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self.names: list[str] = []
        self._known: dict[int, int] = {}

    def __call__(self, array: Array, element: str) -> int:
        """The number under which an array will be found."""
        number = self._known.get(id(array))
        if number is None:
            number = self._known[id(array)] = len(self.arrays)
            self.arrays.append(array)
            self.names.append(element)
        return number


def save(
    file: IO[bytes],
    built: Built | None,
    facts: Facts,
    target: str,
    more: Mapping[str, Any],
    texts: Sequence[str] = (),
) -> None:
    """Write a program; `more` is put into the manifest as it is, `texts` are those of segments.

    OSError as writing raises it; `NotPlainError` where an op of the host can't be told of.
    """
    keep = _Keeper()
    code = bytearray()
    program = None if built is None else _program(built, keep, code)
    manifest = {
        **more,
        "facts": _facts(facts),
        "program": program,
        "constants": [list(p) for p in places_of(keep.arrays, keep.names)],
        "texts": [len(t) for t in texts],
    }
    write(file, target, manifest, bytes(code), keep.arrays, "".join(texts))


def _facts(facts: Facts) -> dict[str, Any]:
    return {
        **facts._asdict(),
        "inputs": [[name, type and _type(type)] for name, type in facts.inputs],
        "outputs": [[name, type and _type(type)] for name, type in facts.outputs],
    }


def _type(type: Any) -> list[Any]:
    return [type.dtype.name, *map(spelled, type.shape)]


def _program(built: Built, keep: _Keeper, code: bytearray) -> dict[str, Any]:
    steps: list[Any] = []
    for step in built.steps:
        passed = [list(step.inputs), list(step.outputs)]
        if not isinstance(step, Segment):
            function = host_ops.told(step.function.body, keep)
            inner = step.bodies if isinstance(step, Control) else ()
            bodies = [_program(body, keep, code) for body in inner]
            steps.append([*passed, "host", function, bodies])
            continue
        code += bytes(-len(code) % 64)
        said = [_image(step.image, len(code)), _layout(step.layout, keep)]
        steps.append([*passed, "native", *said])
        code += step.image.code
    constants = {str(k): keep(a, _element(a)) for k, a in built.constants.items()}
    return {
        "args": list(built.args),
        "types": [_type(t) for t in built.types],
        "results": list(built.results),
        "steps": steps,
        "constants": constants,
    }


def _image(image: Image, start: int) -> list[Any]:
    return [start, len(image.code), image.symbols, list(image.outside)]


def _layout(layout: Layout, keep: _Keeper) -> dict[str, Any]:
    return {
        "sizes": list(layout.sizes),
        "derived": [[name, spelled(n)] for name, n in layout.derived],
        "guards": [[spelled(a), spelled(b)] for a, b in layout.guards],
        "arena": spelled(layout.arena),
        "scratch": spelled(layout.scratch),
        "inputs": [_type(t) for t in layout.inputs],
        "outputs": [_type(t) for t in layout.outputs],
        "work": spelled(layout.work),
        "shares": layout.shares,
        "checks": [[list(check.where), spelled(check.extent)] for check in layout.checks],
        "watched": layout.watched,
        "donated": [list(pair) for pair in layout.donated],
        "constants": [keep(a, _element(a)) for a in layout.constants],
    }


def _element(array: Array) -> str:
    return tensor_of(array).dtype.name


# ---- from a file -------------------------------------------------------------------------------


class Saved:
    """A program from a file; `built` is None where the file says no more than what a model is."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self._manifest = container.manifest
        self._built: Built | None = None
        self.facts = self._told(lambda: _facts_of(self._manifest["facts"]))

    def _told(self, read: Callable[[], Any]) -> Any:
        """What the manifest says; the user's error where its digest is right and it is not."""
        try:
            return read()
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            name = type(error).__name__
            raise damaged(self.container.name, f"its manifest is wrong ({name})") from None

    def says(self, key: str) -> Any:
        """What `save` was given to say besides, None where it was given nothing."""
        return self._manifest.get(key)

    @property
    def built(self) -> Built | None:
        """The program as data, its constants mapped."""
        if self._built is None and self._manifest.get("program") is not None:
            self._built = self._told(self._read)
        return self._built

    def _read(self) -> Built:
        places = [Place(at, name, tuple(s)) for at, name, s in self._manifest["constants"]]
        arrays = [self.container.array(place) for place in places]
        return self._read_program(self._manifest["program"], arrays)

    def _read_program(self, said: Any, arrays: Sequence[Array]) -> Built:
        code = self.container.code
        steps: list[Part] = []
        for inputs, outputs, kind, *rest in said["steps"]:
            passed = (tuple(inputs), tuple(outputs))
            if kind == "host":
                function = host_ops.function_of(rest[0], arrays.__getitem__)
                bodies = tuple(self._read_program(body, arrays) for body in rest[1])
                control = Control(function, bodies, *passed)
                steps.append(control if bodies else Host(function, *passed))
                continue
            start, size, symbols, outside = rest[0]
            image = Image(code[start : start + size], symbols, tuple(outside))
            steps.append(Segment(image, _layout_of(rest[1], arrays), *passed))
        constants = {int(k): arrays[number] for k, number in said["constants"].items()}
        types = tuple(map(_type_of, said["types"]))
        return Built(tuple(said["args"]), types, tuple(said["results"]), tuple(steps), constants)

    def serves(self, binding: Mapping[str, int]) -> bool:
        """Whether this is the program for these sizes; none stand for all sizes."""
        symbols, sizes = self.facts.symbols, self.facts.sizes
        fixed = {s: n for s, n in sizes.items() if s in symbols or is_content(s)}
        return self.built is not None and fixed == dict(binding)

    def texts(self) -> list[str]:
        """The program level's text of each segment; none where the file was written without."""
        whole, texts, at = self.container.text(), [], 0
        for size in self._manifest["texts"]:
            texts.append(whole[at : at + size])
            at += size
        return texts

    def require_target(self) -> None:
        """UserError where this machine lacks what the code needs."""
        target = MACHINES.get(self.container.target)
        if target is None or not target.runs_here():
            raise cannot_run(self.container.target)

    def options_for(self, options: Options) -> Options:
        """Options for this program, which decides what its code is.

        UserError where its target does not run here (MC0106), another was asked for (MC0163),
        or its memory is beyond the limit.
        """
        self.require_target()
        target, built = self.container.target, self.built
        if options.target not in (None, target):
            text = f"the program was compiled for {target}, and target is {options.target}"
            raise UserError("MC0163", text, hint="compile the model for that target")
        if built is not None:
            name = f"the program {self.container.name}"
            require_array_fits(built.bytes(), options.memory_limit, name)
        return options.replace(math=self.facts.math, target=target)

    def compilation(self, options: Options) -> Compilation:
        """The program made ready to run; UserError where its target does not run here."""
        self.require_target()
        built, facts = self.built, self.facts
        if built is None:
            raise damaged(self.container.name, "it has no program")
        executable = executable_of(built, options)
        return Compilation(executable, facts.seconds, facts.kernels, facts.launches, facts.host)


def cannot_run(target: str) -> UserError:
    """MC0106: this machine lacks what code for a target needs."""
    hint = "compile it only, or leave target out"
    return UserError("MC0106", f"this machine can't run code for {target}", hint=hint)


def _facts_of(said: Any) -> Facts:
    return Facts(
        **{
            **said,
            "inputs": tuple((name, type and _type_of(type)) for name, type in said["inputs"]),
            "outputs": tuple((name, type and _type_of(type)) for name, type in said["outputs"]),
            "symbols": tuple(said["symbols"]),
            "wants": tuple(said["wants"]),
            "decisive": tuple(said["decisive"]),
            "host": tuple(OnHost(*row) for row in said["host"]),
        }
    )


def _type_of(said: Sequence[Any]) -> TensorType:
    element: DType = dtype(said[0])
    return TensorType(element, tuple(map(dim_of, said[1:])))


def _layout_of(said: Any, arrays: Sequence[Array]) -> Layout:
    return Layout(
        tuple(said["sizes"]),
        tuple((name, dim_of(n)) for name, n in said["derived"]),
        tuple((dim_of(a), dim_of(b)) for a, b in said["guards"]),
        dim_of(said["arena"]),
        dim_of(said["scratch"]),
        tuple(map(_type_of, said["inputs"])),
        tuple(map(_type_of, said["outputs"])),
        dim_of(said["work"]),
        bool(said["shares"]),
        tuple(Check(tuple(where), dim_of(extent)) for where, extent in said["checks"]),
        tuple(map(tuple, said["watched"])),
        tuple((int(given), int(out)) for given, out in said["donated"]),
        tuple(arrays[number] for number in said["constants"]),
    )
