"""`InferenceSession`: a compiled ONNX model with ONNX Runtime's interface.

A program that was compiled before is opened from its file, and nothing of the compiler is imported.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from minicc.api.inputs import check_inputs, fit_apart, free_dimensions
from minicc.api.node_args import NodeArg, declared_of, node_arg
from minicc.api.refused import Refused
from minicc.api.served import Run, Served, Shapes
from minicc.errors import MiniccError, UnsupportedError, UserError
from minicc.ir.arrays import DENSE, Array
from minicc.ir.text.extents import MOST_CONTENTS, binding_of, contents_of, extents_of, is_content
from minicc.ir.types import TensorType
from minicc.later import Later
from minicc.limits import watched, without_collection
from minicc.locks import lock
from minicc.options import Options, options_of
from minicc.runtime.pipeline import owned
from minicc.runtime.programs import Programs, is_program, is_text, open_program, state_from
from minicc.runtime.saved import Compilation, Facts, Saved
from minicc.wording import counted, sizes_of

if TYPE_CHECKING:
    from minicc.api import texts
    from minicc.compile import compiled
    from minicc.compile.compiled import Made
    from minicc.frontends.onnx import bound, importer
    from minicc.frontends.onnx.model import reader
    from minicc.frontends.onnx.model.reader import Model
    from minicc.ir.core import Module
else:
    compiled, texts = Later("minicc.compile.compiled"), Later("minicc.api.texts")
    bound, importer = Later("minicc.frontends.onnx.bound"), Later("minicc.frontends.onnx.importer")
    reader = Later("minicc.frontends.onnx.model.reader")

_MOST = 64  # specialisations that are kept
_ON_DISK = 4  # of a session, those whose programs are kept on disk, weights and all
_OWN = 4  # sizes that have a program of their own, where that runs less on the host
_OWN_CONTENTS = 1  # the same of contents of inputs, which may differ each time


class InferenceSession:
    """A compiled ONNX model, with ONNX Runtime's interface.

    `model` is a path or bytes, of an ONNX model or of a compiled program, or the path of a text of
    any level. A model is compiled at once, for all sizes of dimensions that are free and that
    `Options(sizes=...)` does not give. Sizes that a guard of the program
    refuses have their own, which is compiled when they come, and so have all where nodes want
    numbers. What was compiled before is opened from the cache. May be entered from several Python
    threads at once.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        *,
        threads: int | None = None,
        math: str | None = None,
        target: str | None = None,
        options: Options | None = None,
        **unknown: Never,
    ) -> None:
        self.options = options_of(options, threads=threads, math=math, target=target, **unknown)
        self._source = model
        self._outputs: tuple[str, ...] | None = None
        self._apart = False  # whether each free dimension has a name of its own
        self._open()

    @without_collection()
    def _open(self) -> None:
        with watched(self.options.limits):
            self._find()

    def _find(self) -> None:
        """Find the program or read the model; compile it if nothing has to be known before."""
        began = time.perf_counter()
        self._read: Model | None = None  # where the graph is imported for each set of sizes
        self._module: Module | None = None
        self._named = self._outputs is None and is_program(self._source)
        self._text: texts.Text | None = None
        if self._named:
            self._saved: Saved | None = self._open_program()
        else:
            source = None if is_text(self._source) else self._source
            self._programs = Programs(source, self._outputs, self.options, self._apart)
            self._saved = self._programs.find()
        if self._saved is None:
            self._facts = self._import()
        else:
            self._facts = self._saved.facts
        self.signature = self._facts.inputs
        self._result_names = tuple(name for name, _ in self._facts.outputs)
        self._import_seconds = time.perf_counter() - began
        self._compiled: dict[tuple[tuple[str, int], ...], Compilation] = {}
        self._others: dict[tuple[str, ...], InferenceSession] = {}
        self._refused = Refused()
        self._lock = lock()
        self._symbols = self._facts.symbols
        self._args = [
            (name, type, type.dtype.numpy) for name, type in self.signature if type is not None
        ]
        self._served = Served([(name, dtype) for name, _, dtype in self._args])
        # names of sizes that are 1, for which there is no program for any others
        self._without: set[tuple[str, ...]] = set()
        self._asks = bool(self._facts.wants or self._facts.decisive)
        if not self._facts.sized and not self._asks:
            self._compile_ahead()
        if self._saved is None and (self._symbols or self._asks) and not self._compiled:
            # without a program for all sizes the file says only what is known of the model
            self._programs.keep(None, None, self._facts, self._beside())
        path = isinstance(self._source, (str, os.PathLike)) and self._text is None
        if self._symbols and path and not self._asks:
            self._module = None  # its constants lie in the model's file, which may change

    def _compile_ahead(self) -> None:
        """Compile the program for all sizes, if there can be one."""
        try:
            found = self._compilation({})
        except UserError as error:
            if error.code != "MC0142" or not self._symbols:
                raise
            self._without.add(())
        else:
            if not self._symbols and len(self._args) == len(self.signature):
                shapes = tuple([type.extents for _, type, _ in self._args])
                self._served.keep(shapes, self._run_of(found, shapes))

    def _open_program(self) -> Saved:
        """The program that was given in place of a model; it decides what code is."""
        saved = open_program(self._source)
        self.options = saved.options_for(self.options)
        return saved

    def _import(self) -> Facts:
        """Read the model, and import its graph, unless that needs to know all sizes."""
        if not isinstance(self._source, bytes) and is_text(self._source):
            self._text = texts.open_text(self._source).bound(dict(self.options.sizes))
            self._module = self._text.module
            return self._text.facts(self.options)
        read = reader.read_model(self._source, self._outputs, self.options.limits, self._apart)
        if self.options.sizes:
            bound.bind_inputs(read, dict(self.options.sizes))
        self._files = read.files
        try:
            self._module = importer.import_graph(read)
        except MiniccError as error:
            importer.require_size_error(error)
            read.settle()
            self._read = read
            outputs = tuple((name, None) for name in read.outputs)
            symbols = free_dimensions(type for _, type in read.inputs)
            facts = Facts(tuple(read.inputs), outputs, symbols, self.options.math, 0, sized=True)
        else:
            facts = compiled.facts_of(read.inputs, read.outputs, self._module, self.options)
            if facts.wants or facts.decisive:
                read.hold()  # the graph is compiled again for each set of sizes
                self._module = importer.import_graph(read)
        return facts._replace(declared=declared_of(read.declared), about=read.about)

    @property
    def facts(self) -> Facts:
        """What is known of the model: its inputs and outputs, what it declares and says of itself.

        Opening a compiled program is enough for that; a copy for each caller is not made.
        """
        return self._facts

    @property
    def module(self) -> Module:
        """The graph module; UnsupportedError where each set of sizes has one of its own.

        Its large constants may be views of the model's file. UserError where the session was opened
        from a compiled program, or the model's file changed since a program of it was opened.
        """
        if self._facts.sized:
            text = "this model has a graph for each set of sizes"
            raise UnsupportedError("MC0228", text, hint="bind the free dimensions: sizes={...}")
        if self._module is None:
            self._import_later("the graph")
        assert self._module is not None
        return self._module

    def _import_later(self, what: str) -> None:
        """Import the model, of which a program was opened."""
        self._need_model(what)
        if self._programs.changed():
            text = "the model's file changed since the session was opened"
            raise UserError("MC0165", text, hint="open a new session")
        self._import()

    def _need_model(self, what: str) -> None:
        if self._named or self._text is not None:
            kind = "text" if self._text is not None else "compiled program"
            text = f"{what} can't be had of a {kind}"
            raise UserError("MC0164", text, hint="open the model that it was compiled from")

    def get_inputs(self) -> list[NodeArg]:
        """The inputs in order."""
        return [self._arg(*told) for told in self.signature]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs in order."""
        return [self._arg(*told) for told in self._facts.outputs]

    def _arg(self, name: str, type: TensorType | None) -> NodeArg:
        """An input or output; of one that has no type for us, what the model declares."""
        if type is not None:
            return node_arg(name, type)
        shape, kind, _ = self._facts.declared.get(name, ([], "", ""))
        return NodeArg(name, ["?" if n is None else n for n in shape], kind)

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any]) -> list[Array]:
        """The values of those names (all outputs with None) for arrays by input name.

        A name may be that of any tensor that the model computes. Arrays may be of any layout;
        dtypes and shapes must be the model's. UserError lists all that is wrong.
        """
        if input_feed.__class__ is not dict and not isinstance(input_feed, Mapping):
            text = f"the inputs are a {type(input_feed).__name__}, and must be a dict of arrays"
            names = ", ".join(f"{name!r}: ..." for name, _ in self.signature)
            raise UserError("MC0143", text, hint=f"run(None, {{{names}}})")
        if output_names is not None and (
            output_names.__class__ is str or tuple(output_names) != self._result_names
        ):
            return self._choose(output_names, input_feed)
        expected, run = self._served.last
        arrays: list[Array] = []
        for name, dtype, shape in expected:  # a plain loop, for this is asked at each call
            array = input_feed.get(name)
            if array.__class__ is not np.ndarray or array.dtype is not dtype:
                break
            if array.shape != shape or array.flags.num & DENSE != DENSE:
                break
            arrays.append(array)
        else:
            if len(arrays) == len(input_feed):
                return run(arrays)
        found = self._served.find(input_feed)
        return found[1](found[0]) if found is not None else self._run_checked(input_feed)

    def _run_checked(self, input_feed: Mapping[str, Any]) -> list[Array]:
        """What `run` does for shapes that it sees for the first time, and for odd inputs."""
        try:
            elements = self._facts.elements()
            checked = check_inputs(self.signature, input_feed, self.options.memory_limit, elements)
        except UserError as error:
            return self._run_apart(input_feed, error)
        arrays = list(checked.values())
        typed = len(self._args) == len(self.signature)
        shapes = tuple([a.shape for a in arrays]) if typed else None
        run = self._run_of(self._program(checked), shapes)
        if shapes is not None and not self._facts.decisive:
            self._served.keep(shapes, run)
        return run(arrays)

    def _run_apart(self, feed: Mapping[str, Any], error: UserError) -> list[Array]:
        """What the model gives where its name of a dimension stands for several sizes.

        ONNX Runtime has names say nothing of inputs. It is the error if that is not what it is of.
        """
        bound = self._apart or self._named or self._text is not None or self.options.sizes
        if bound or not self._symbols or not fit_apart(self.signature, feed):
            raise error
        with self._lock:
            if () not in self._others:
                self._others[()] = self._with_outputs(self._outputs, apart=True)
        try:
            return self._others[()].run(None, feed)
        except UserError:
            raise error from None

    def _run_of(self, compilation: Compilation, shapes: Shapes | None) -> Run:
        """What runs a program for inputs of some shapes, or any, where data may refuse it.

        Those sizes have a program of their own then; where that is not for the data either, the
        ops run by definition.
        """
        executable = compilation.executable
        run = executable.run if shapes is None else executable.ready(shapes)
        if not compilation.host or self._named:
            return run

        def guarded(arrays: list[Any]) -> list[Any]:
            try:
                return run(arrays)
            except UserError as error:
                if error.code != "MC0142":
                    raise
                names = (name for name, _ in self.signature)
                binding = self.binding(dict(zip(names, arrays, strict=True)))
                futile = self._refused.is_futile(binding)
                own = compilation if futile else self._compilation(binding)
                if own is not compilation:
                    made = self._run_of(own, shapes)(arrays)
                    self._refused.compiled(binding)
                    return made
                # more holds of this graph than of that for all sizes
                known = self._imported_for if self._facts.sized else self._anew
                module = self._refused.graph(binding, lambda: known(binding) or self.module)
                found = compiled.by_definition(module, arrays, self.options.memory_limit, error)
                return [owned(v) for v in found]

        return guarded

    def _choose(self, names: Sequence[str], feed: Mapping[str, Any]) -> list[Any]:
        """Some of the outputs, or values from within, for which another session is opened."""
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            text = f"the outputs {names!r} are no list of names"
            raise UserError("MC0107", text, hint=f"outputs: {', '.join(self._result_names)}")
        if set(names) <= {*self._result_names}:
            found = dict(zip(self._result_names, self.run(None, feed), strict=True))
            return [found[name] for name in names]
        self._need_model(f"a value that is no output ({', '.join(names)})")
        key = tuple(dict.fromkeys(names))
        with self._lock:
            if key not in self._others:
                self._others[key] = self._with_outputs(key)
        found = dict(zip(key, self._others[key].run(None, feed), strict=True))
        return [found[name] for name in names]

    def _with_outputs(self, names: tuple[str, ...] | None, apart: bool = False) -> InferenceSession:
        other = InferenceSession.__new__(InferenceSession)
        other.options, other._source, other._outputs = self.options, self._source, names
        other._apart = apart or self._apart
        try:
            other._open()
        except UserError as error:
            missing = [w for e in error.parts if e.code == "MC0125" for w in e.where]
            if not missing:
                raise
            outputs = ", ".join(self._result_names)
            text = f"no output is called {', '.join(map(repr, missing))}"
            hint = f"outputs: {outputs}; or any value of a node that these depend on"
            raise UserError("MC0107", text, hint=hint) from None
        return other

    def binding(self, inputs: Mapping[str, Any]) -> dict[str, int]:
        """The sizes that inputs have by name: of free dimensions, and of those of no known rank."""
        typed = [(type.shape, inputs[name].shape) for name, type, _ in self._args]
        binding = binding_of([s for s, _ in typed], [s for _, s in typed])
        if self._facts.sized:
            for name, type in self.signature:
                if type is None and isinstance(inputs[name], np.ndarray):
                    binding |= extents_of(name, inputs[name].shape)
        return binding

    def is_bound(self, inputs: Mapping[str, Any]) -> bool:
        """Whether inputs have a program for sizes of their own, and not one for any."""
        found = self._program(inputs)
        return any(known is found for sizes, known in self._compiled.items() if sizes)

    def _program(self, inputs: Mapping[str, Any]) -> Compilation:
        """One program for all sizes, or else one for those that are 1 and any others.

        TorchDynamo specialises 0 and 1, too. What neither is for has a program of its own, and so
        have a few sizes with which less runs on the host.
        """
        own = self._own(inputs)
        if own is not None:
            return self._compilation(own)
        binding = self.binding(inputs)
        if self._facts.sized:
            return self._compilation(binding)
        shapes = [() if type is None else inputs[n].shape for n, type in self.signature]
        for some in ({}, {name: n for name, n in binding.items() if n == 1}):
            found = self._for_others(some, binding)
            if found and (not self._symbols or found.executable.fits(shapes)):
                return found
        return self._compilation(binding)

    def _for_others(
        self, some: Mapping[str, int], binding: Mapping[str, int]
    ) -> Compilation | None:
        """A program for some sizes and any others; None where its ops want unlike ones.

        What broadcasts from 1 does so there, whatever the others are. Nothing is compiled for sizes
        that do not fit the model.
        """
        new = bool(some) and tuple(some.items()) not in self._compiled
        if tuple(some) in self._without or (new and self._named):
            return None
        if new and self._anew(binding) is None:
            return None
        try:
            return self._compilation(some)
        except UserError as error:
            if error.code != "MC0142":
                raise
            self._without.add(tuple(some))
            return None

    def _own(self, inputs: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What a program of their own is compiled for, with which less runs on the host.

        The first sizes have that where it helps, as long as they are few, and so have the first
        contents of inputs that say no more than axes, a shape or such.
        """
        decisive = self._facts.decisive
        if self._named or not self._asks:
            return None
        binding: dict[str, Any] = self.binding(inputs)
        if any(inputs[name].size > MOST_CONTENTS for name in decisive):
            return None
        for name in decisive:
            binding |= contents_of(name, inputs[name])
        own = sum(1 for known in self._compiled if known)
        few = own < (_OWN_CONTENTS if decisive else _OWN)
        return binding if few or tuple(binding.items()) in self._compiled else None

    def _compilation(self, binding: Mapping[str, int]) -> Compilation:
        name = tuple(binding.items())
        with self._lock:
            found = self._compiled.pop(name, None)
            if found is None:
                found = self._made(binding)
            self._compiled[name] = found  # the last, which is forgotten last
            if len(self._compiled) > _MOST:
                self._compiled.pop(next(iter(self._compiled)))
                self._served.clear()
        return found

    def _made(self, binding: Mapping[str, int]) -> Compilation:
        """What was compiled before, from a file, or what is compiled now and kept in one."""
        saved = self._saved
        if self._named and not (saved and saved.serves(binding)):
            text = f"the program was compiled for {sizes_of(self._facts.sizes)}"
            raise UserError("MC0166", text, hint="compile the model for these sizes: --shape")
        if not self._named and not (saved and saved.serves(binding)):
            saved = self._programs.find(binding)
        if saved is not None:
            return saved.compilation(self.options)
        if self._text is not None:
            start, own = self._text.bound(binding)
            return compiled.compile_module(own, self.options, {}, start=start)
        keep = partial(self._keep, binding) if len(self._compiled) < _ON_DISK else None
        if self._facts.sized:
            return compiled.compile_module(self._imported_for(binding), self.options, {}, keep)
        # a graph of which data decide sizes may be one of which they don't where these are known,
        # and one for all sizes takes for equal what may broadcast from some that are 1
        hosted = compiled.is_hosted(self.module)
        some = any(name not in binding for name in self._symbols)
        module = self._anew(binding) if binding and (hosted or some) else None
        if module is None:
            sizes = {name: n for name, n in binding.items() if not is_content(name)}
            try:
                return compiled.compile_module(self.module, self.options, sizes, keep)
            except UserError as error:
                other = error.code != "MC0142" or not binding
                module = None if other else self._anew(binding, error)
                if module is None:
                    raise
        return compiled.compile_module(module, self.options, {}, keep)

    def _anew(self, binding: Mapping[str, int], wrong: UserError | None = None) -> Module | None:
        """The graph that is imported for sizes; as `import_for` where they do not fit the model."""
        if self._text is not None or self._programs.changed():
            return None
        sizes = self.options.sizes
        source = self._source, self._outputs
        return importer.import_for(*source, sizes, binding, self._apart, wrong)

    def _imported_for(self, binding: Mapping[str, int]) -> Module:
        """The graph for sizes where one for all is not there; errors as of an import."""
        if self._read is None:
            self._import_later("the graph")
        assert self._read is not None
        return importer.import_graph(self._read, binding)

    def _keep(self, binding: Mapping[str, int], made: Made) -> None:
        facts = made.facts(self._facts, binding)
        self._programs.keep(binding or None, made.built, facts, self._beside())

    def _beside(self) -> dict[str, tuple[int, ...]]:
        """The files beside the model that were read, and their states then."""
        found = {} if self._text is not None else self._files.read
        return {name: state_from(state) for name, state in found.items()}

    def report(self) -> str:
        """What was compiled, how long each part took, and what runs on the host and why."""
        how = "import" if self._saved is None else "opened compiled in"
        ops = "a graph for each size" if self._facts.sized else counted(self._facts.ops, "graph op")
        lines = [f"{how} {self._import_seconds * 1e3:.0f} ms, {ops}"]
        for sizes, c in self._compiled.items():
            bound, free = dict(sizes), [name for name in self._symbols if name not in dict(sizes)]
            others = f"any {', '.join(free)}" if free else ""
            shapes = ", ".join(filter(None, (sizes_of(bound), others))) or "static shapes"
            lines += c.told(shapes, self.options.machine.name)
        return "\n".join(lines)
