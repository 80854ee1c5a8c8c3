"""`jit`: machine code for functions written with plain NumPy.

The function is traced once for each set of shapes, element types and static arguments, compiled,
and called from then on; what it read from outside is guarded. `f.lower(*args)` stops before
machine code, to be read.
"""

from __future__ import annotations

import functools
import sys
import types
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Never

from minicc import errstate
from minicc.api.agreement import Trial
from minicc.api.graph_programs import GraphProgram, is_little, require_worth
from minicc.api.inline_cache import InlineCaches
from minicc.api.patience import TOO_LONG, Patience
from minicc.api.segments import Segment
from minicc.api.specialised import LOGGER, NUMBERS_ALONE, Call, Known, Specialisation
from minicc.errors import MiniccError, PerformanceWarning, UnsupportedError, UserError
from minicc.frontends.trace import (
    Counted,
    Diverged,
    Environment,
    Given,
    GivenUp,
    Missed,
    Parameters,
    Path,
    Rehearsal,
    SizedPath,
    Sizes,
    Tree,
    Unsized,
    Within,
    copied,
    said_by,
    told,
    trace_values,
)
from minicc.frontends.trace.asked import RAISED
from minicc.frontends.trace.explain import Explanation, graph_of, parts_of, told_of
from minicc.frontends.trace.explain import Specialisation as Explained
from minicc.frontends.trace.side_effects import Begun
from minicc.ir.core import Module
from minicc.later import Later
from minicc.locks import lock
from minicc.options import Options, options_of
from minicc.runtime.saved import Compilation

if TYPE_CHECKING:
    from minicc.api import lowered
else:
    lowered = Later("minicc.api.lowered")

_NO_VALUE = "MC0181"  # an argument is neither an array nor a value
_OUTSIDE = "MC0158"  # an index that data gave is out of bounds
_OVERLAP = "MC0248"  # an argument is written to that is read-only, or shares another's memory
# a program for all sizes is not for those of its inputs, or might need too much memory for some
_UNFIT = ("MC0142", "MC0135")
_CODES = 512  # segments whose code is shared among equal ones
# what is not traced, but NumPy does
_PLAIN = ("MC0241", "MC0242", "MC0243", "MC0244", "MC0245", "MC0246", "MC0247")
_REASONS = 256  # of traces that are remembered
_OFTEN = 32  # traces of a function after which it says so


class Jitted:
    """What `jit` returns.

    Called like the function, compiled for each kind of arguments it meets.
    """

    def __init__(self, f: Callable[..., Any], options: Options) -> None:
        self.__wrapped__ = f
        functools.update_wrapper(self, f)
        if options.keep_denormals is None:
            options = options.replace(keep_denormals=True)
        self.options = options
        self._parameters = Parameters(f)
        self._known = Known()
        self._lock = lock()
        self._reasons: deque[tuple[int, str]] = deque(maxlen=_REASONS)
        self._traces = 0
        self._patience = Patience()
        self._served = 0  # calls that programs were for, but for those of machine code
        self._asked = 0  # of both, before patience was asked last
        self._codes: dict[str, Segment] = {}
        self._inline = InlineCaches()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result; arrays share memory with the arguments as NumPy's results do."""
        values = self._bound(args, kwargs) if kwargs else args
        for inline in self._inline.known:
            if inline.direct is not None:
                outputs = inline.direct.outputs(*values)
                if outputs is not None:
                    self._inline.direct += 1
                    return inline.direct.result(outputs)
        if not kwargs:
            values = self._bound(args, kwargs)
        if errstate.raises():
            return self.__wrapped__(*args, **kwargs)  # at the operation that overflows or such
        try:
            return self._called(values, args, kwargs)
        except Within:
            pass
        except (UserError, UnsupportedError) as error:
            if error.code not in (_NO_VALUE, _OUTSIDE, _OVERLAP):
                raise
            if error.code == _NO_VALUE and (0, error.message) not in self._reasons:
                self._reasons.append((0, error.message))
                self._tell_plain(f"{error.message}; {error.hint}", 3)
            if error.code == _OVERLAP:
                self._parameters.overlaps = True
                self._inline.stop()
        # nothing is written yet; and where NumPy raises, it is with its own words
        return self.__wrapped__(*args, **kwargs)

    def _called(self, values: Sequence[Any], args: Any, kwargs: Any) -> Any:
        """The result of compiled code, traced first where none fits."""
        served = self._inline.serve(values)
        call: Call | None = None
        run = None
        if served is not None:
            inline, arrays, inputs = served
            found, run = inline.found, inline.run
            if not inline.seen:
                inline.look(values, arrays, inputs, len(values if kwargs else args))
        else:
            call = Call(*self._parameters.key(values), values)
            known = self._known.find(call)
            if known is None or not (known.runs or known.plain):
                return self._trace(call)
            found, arrays, inputs = known, call.arrays, call.inputs
        if found.hosted or found.plain:
            if call is not None:
                self._inline.expect(found, call)
            if found.plain:
                return self.__wrapped__(*args, **kwargs)
            self._served += 1
            with errstate.Silent():  # as compiled code is
                return self.__wrapped__(*args, **kwargs)
        missed: Missed | None = None
        try:
            if run is not None and found.traced is not None:
                self._served += 1
                begun = [*arrays, *inputs]
                return found.traced.rebuild(run(begun), begun, values)
            result = found.replay(arrays, inputs, values)
            if type(result) is not Missed:
                self._served += 1
                if call is not None:
                    self._inline.expect(found, call)
                return result
            missed = result
        except UserError as error:
            if not found.sizes or error.code not in _UNFIT:
                raise
        if call is None:
            call = Call(*self._parameters.key(values), values)
            call.inputs = inputs
        self._inline.clear()
        if missed is None and found.sizes.counts is not None:
            self._known.miss(call, found, self._served + self._inline.direct)
            return self.__wrapped__(*args, **kwargs)
        if missed is None:
            self._known.drop_sizes(call)  # a guard that only the program knows
        return self._trace(call, missed)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments in the order of the parameters."""
        try:
            return self._parameters.bind(args, kwargs)
        except UserError:
            self.__wrapped__(*args, **kwargs)  # raises what Python raises
            raise

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        """A method of an object, as of any function."""
        return self if owner is None else types.MethodType(self, owner)

    def __reduce__(self) -> Any:
        """By name where the module holds it, as functions are; else as the function and options.

        What is compiled stays behind.
        """
        found: Any = sys.modules.get(self.__wrapped__.__module__)
        for part in self.__wrapped__.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is self:
            return self.__wrapped__.__qualname__
        return Jitted, (self.__wrapped__, self.options)

    def _trace(self, call: Call, missed: Missed | None = None) -> Any:
        """The result of a call that is traced, since nothing known fits it."""
        if not self._worth(call, missed):
            if missed and self._patience.is_gone and (known := self._known.find(call)):
                known.plain = f"{told_of(missed)}, as in all calls of late"
                self._tell_plain(known.plain, 4)
            return self._parameters.call(self.__wrapped__, call.values)
        raised: Exception | None = None
        call.names = self._parameters.paths(call.values)  # to which the function may add some
        trial = Trial.of(self.__wrapped__, self._parameters, call.values) if not missed else None
        with self._lock:
            found = self._known.find(call)
            if found is None or not (found.plain or found.compilation is not None):
                self._tell(self._why(call, missed if found is not None else None))
                try:
                    found = self._traced(call, found, missed)
                except Exception as error:
                    if _is_own(error) or (missed is not None and missed.effects):
                        raise
                    raised = error
        if raised is not None:
            # NumPy may raise as well, and has written till then
            result = self._parameters.call(self.__wrapped__, call.values)
            self._leave_to_numpy(call, _spelt(raised), "fails")
            return result
        assert found is not None
        if found.plain:
            return self._parameters.call(self.__wrapped__, call.values)
        assert found.traced is not None
        if found.compilation is not None:
            try:
                result = found.replay(call.arrays, call.inputs, call.values)
            except UserError as error:
                if not found.sizes or error.code not in _UNFIT:
                    raise
                if found.sizes.counts is None:
                    self._known.drop_sizes(call)
                else:
                    self._known.miss(call, found, self._served + self._inline.direct)
                return self._parameters.call(self.__wrapped__, call.values)
        else:
            result, found.traced.result = found.traced.result, None
        if trial is None or found.traced.acts or trial.agrees(result, call.values):
            return result
        trial.restore(call.arrays)
        self._leave_to_numpy(call, "", "NumPy gives another result, as errors are caught")
        return self._parameters.call(self.__wrapped__, call.values)

    def _worth(self, call: Call, missed: Missed | None) -> bool:
        """Whether a call is traced where nothing known fits it; else NumPy runs it."""
        total = self._served + self._inline.direct
        served, self._asked = total - self._asked, total
        if missed is not None and missed.effects:
            return True  # NumPy would have the effects again
        seen = missed and (missed.action.where, missed.place, missed.key)
        need = None if self._known.changed(call) else (call.key, call.all_told(), seen)
        return self._patience.allows(need, served, missed is not None)

    def _leave_to_numpy(self, call: Call, where: str, why: str) -> None:
        """Have NumPy run calls like this one from now on."""
        found = self._left_to_numpy(call, UnsupportedError("MC0241", why, where=where))
        self._known.keep(call, found)

    def _traced(
        self, call: Call, found: Specialisation | None, missed: Missed | None
    ) -> Specialisation:
        """What is known after the trace of a call."""
        effects = missed.effects if missed is not None else 0
        if found is None and (sized := self._for_all_sizes(call)) is not None:
            return sized
        try:
            found = self._walk(call, found, effects)
        except Counted:
            self._known.count(call, True)
            return self._traced(call, None, missed)
        except (GivenUp, UnsupportedError) as error:
            given_up = error.error if isinstance(error, GivenUp) else error
            known = given_up.code == _OVERLAP and self._parameters.overlaps
            if not (known or given_up.code in _PLAIN) or effects:
                raise given_up from None  # NumPy would have the effects again
            self._patience.leave(given_up.code)
            found = self._left_to_numpy(call, given_up)
        self._known.keep(call, found)
        return found

    def _for_all_sizes(self, call: Call) -> Specialisation | None:
        """A program with symbols for sizes that changed since other calls, where there can be one.

        Why there can't is remembered; the call has a program for its own sizes then.
        """
        sizes = self._known.sizes(call)
        if not sizes:
            return None
        f, moving = self.__wrapped__, self._known.moving_with_sizes(call) | sizes.given.keys()
        try:
            given = Given(moving, call.numbers, call.values)
            first = told(f, self._parameters, call.values, given, sizes)
            again = Given(moving, call.numbers, call.values)
            if told(f, self._parameters, call.values, again, sizes.other()) != first:
                raise Unsized("a size is taken for a number")
            call.given = given = Given(moving, call.numbers, call.values)
            arrays = Begun(call.arrays, call.values)
            path = SizedPath(arrays, partial(self._compile, sizes=sizes))
            traced = trace_values(f, self._parameters, call.values, path, given, sizes)
            found = Specialisation(traced.tree or Tree(), given)
            found.add(traced, given)
            found.sizes = sizes
            call.take(given, traced.module is not None)
            if traced.module is not None and is_little(traced.module, sizes):
                found.plain = "data say how many elements an array has, and little is computed"
            elif traced.module is not None:
                found.run_by(self._compilation(traced.module, sizes))
        except (Exception, GivenUp, Unsized) as error:
            self._known.refuse_sizes(call, sizes)
            self._reasons.append((0, f"no program for all sizes{said_by(error)}"))
            return None
        keep = self._known.keep_for_all if sizes.is_free() else self._known.keep
        keep(call, found)
        return found

    def _left_to_numpy(self, call: Call, error: UnsupportedError) -> Specialisation:
        """Have NumPy run the function for such arguments from now on, and say so."""
        found = Specialisation(Tree(), call.given.bare())
        found.plain = ": ".join(filter(None, [", ".join(error.where), error.message]))
        if error.code != TOO_LONG:  # which such calls are with other objects, too
            found.environment = Environment([r for r in call.given.read if r.is_reached])
        self._tell_plain(found.plain, 7)
        return found

    def _tell_plain(self, why: str, depth: int) -> None:
        text = f"{self._name()} is run by NumPy, not compiled: {why}"
        warnings.warn(text, PerformanceWarning, stacklevel=depth)

    def _walk(self, call: Call, found: Specialisation | None, done: int) -> Specialisation:
        """Trace while running; once more where a state that looked known was another."""
        if found is None:
            found = Specialisation(
                Tree(), Given(self._known.moving(call), call.numbers, call.values)
            )
        tree, given = found.tree, found.given.copy(call.numbers, call.values)
        call.given = given
        path = Path(tree, Begun(call.arrays, call.values), self._compile, done)
        path.may_count = tree.root is None and not done and self._known.may_count(call)
        path.varies = self._known.varies(call)
        try:
            traced = trace_values(self.__wrapped__, self._parameters, call.values, path, given)
        except Diverged:
            tree = Tree(tree.learned)
            tree.folds = False
            path = path.again(tree)
            traced = trace_values(self.__wrapped__, self._parameters, call.values, path, given)
        if traced.tree is not found.tree:  # what is known of the other does not hold for this
            found = Specialisation(traced.tree or tree, given)
        found.add(traced, given)
        self._patience.spend(traced.work)
        call.take(given, traced.module is not None)
        if traced.module is not None:
            found.run_by(self._compilation(traced.module))
        return found

    def _tell(self, why: str) -> None:
        """Remember why the function is traced, and say so where that is often."""
        self._traces += 1
        self._reasons.append((self._traces, why))
        if self._traces == _OFTEN:
            text = "%s was traced %d times, the last time since %s; %s.explain() tells of each"
            LOGGER.warning(text, self._name(), _OFTEN, why, self._name())

    def _compile(self, module: Module, text: str, light: bool, sizes: Sizes = NUMBERS_ALONE) -> Any:
        """The code of a segment; equal segments share it."""
        found = self._codes.get(text)
        if found is None:
            compiled = partial(self._compilation, module, sizes, text)
            found = self._codes[text] = Segment(module, compiled, light)
            if len(self._codes) > _CODES:
                del self._codes[next(iter(self._codes))]
        return found

    def _compilation(
        self, module: Module, sizes: Sizes = NUMBERS_ALONE, text: str | None = None
    ) -> Compilation:
        """The code of a graph; GivenUp where rounds of little work would run on the host."""
        program = GraphProgram(module, self.options, text)
        if not sizes and (kept := program.opened()) is not None:
            return kept  # such rounds are not among what it runs
        require_worth(module, sizes)
        return program.made() if sizes else program.compiled()

    def _why(self, call: Call, missed: Missed | None) -> str:
        if missed is not None:
            return told_of(missed)
        last = self._known.last
        if last is None:
            return "first call"
        if last.key != call.key:
            return self._parameters.explain(last.key, call.key)
        named = zip(last.names, map(repr, last.numbers), map(repr, call.numbers), strict=True)
        others = [f"argument {n}: {a} before, {b} now" for n, a, b in named if a != b]
        return self._known.changed(call) or "; ".join(others) or "other guards"

    def lower(self, *args: Any, **kwargs: Any) -> lowered.Lowered:
        """The function traced for these arguments, not compiled.

        A function with breaks is run by the interpreter; each segment is one of `segments`.
        """
        values = self._parameters.bind(copied(args), copied(kwargs))
        _, arrays, _ = self._parameters.key(values)
        modules: list[Module] = []

        def interpreted(module: Module, text: str, light: bool) -> Any:
            modules.append(module)
            return lowered.Interpreted(module)

        path = Rehearsal(Tree(), arrays, interpreted)
        try:
            traced = trace_values(self.__wrapped__, self._parameters, values, path)
        except GivenUp as given_up:
            raise given_up.error from None
        return lowered.Lowered(
            [traced.module] if traced.module is not None else modules, self.options
        )

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Graphs, breaks with their lines, guards, and why each trace was made.

        With arguments for these, which are compiled if they are not yet (a function with breaks
        runs, on copies of the arrays); else for all that is known.
        """
        known = self._known.all()
        plain: list[Explained] = []
        if args or kwargs:
            values = self._parameters.bind(args, kwargs)
            try:
                known = self._known_for(Call(*self._parameters.key(values), values), args, kwargs)
            except UserError as error:
                if error.code != _NO_VALUE:
                    raise
                known, plain = [], [Explained((), (), (), (), error.message)]
        parts = [Explained(self._guards(s), self._parts(s), s.writes, s.loops, s.plain)
                 for s in known]  # fmt: skip
        counts = self._traces, self._patience.refused
        return Explanation(self._name(), parts + plain, self._reasons, *counts)

    def _known_for(self, call: Call, args: Any, kwargs: Any) -> list[Specialisation]:
        """What is known of calls like one, which is compiled if it is not yet."""
        found = self._known.find(call)
        if found is None or not (found.plain or found.compilation):
            self._patience.renew()
            self(*copied(args), **copied(kwargs))
        return [s for s in (self._known.find(call),) if s is not None]

    def _name(self) -> str:
        return str(getattr(self.__wrapped__, "__name__", "the function"))

    def _guards(self, found: Specialisation) -> tuple[str, ...]:
        named = zip(found.seen.names, found.seen.numbers, strict=True)
        moving = found.given.moving
        fixed = [f"argument {n} is {x!r}" for k, (n, x) in enumerate(named) if k not in moving]
        guards = [*fixed, *found.given.guards, *found.sizes.describe()]
        return (*self._parameters.describe(found.seen.key), *guards, *found.environment.describe())

    def _parts(self, found: Specialisation) -> tuple[Any, ...]:
        threads, traced = self.options.threads, found.traced
        if found.compilation is not None and traced is not None:
            return (graph_of("graph 1", traced.module, found.compilation, threads),)
        return tuple(parts_of(found.tree.root, threads)) if found.tree.root is not None else ()


def _is_own(error: Exception) -> bool:
    """Whether it is an error of minicc's, not one that NumPy or the function raises."""
    return isinstance(error, Warning) or (isinstance(error, MiniccError) and error.code != RAISED)


def _spelt(error: Exception) -> str:
    """An exception of a trace that has ended, without numbers: those would begin it again."""
    words = ", ".join(a for a in error.args if type(a) is str)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def jit(
    f: Callable[..., Any] | None = None,
    *,
    threads: int | None = None,
    math: str | None = None,
    target: str | None = None,
    options: Options | None = None,
    **unknown: Never,
) -> Any:
    """Compile a function of NumPy arrays when it is called.

    Also usable as a decorator with options.
    """
    chosen = options_of(options, threads=threads, math=math, target=target, **unknown)
    if f is not None and not callable(f):
        text = f"jit takes a function, not a {type(f).__name__}"
        raise UserError("MC0149", text, hint="jit(f), or @jit above a function")
    if f is None:
        return lambda function: Jitted(function, chosen)
    return Jitted(f, chosen)
