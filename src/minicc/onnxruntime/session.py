"""`InferenceSession` with ONNX Runtime's arguments and calls, over minicc's own."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from minicc.api import session
from minicc.api.inputs import check_inputs
from minicc.errors import MiniccError, UnsupportedError, UserError
from minicc.later import Later
from minicc.onnxruntime import feeds
from minicc.onnxruntime.binding import IOBinding, values_of
from minicc.onnxruntime.devices import OrtEpDevice, OrtMemoryInfo, cpu_memory, get_ep_devices
from minicc.onnxruntime.editing import with_initialisers
from minicc.onnxruntime.errors import Fail, InvalidArgument, running_error, status
from minicc.onnxruntime.log import LOGGER, tell_once
from minicc.onnxruntime.opening import (
    options_for,
    refused,
    require_declared,
    require_source,
    with_given_data,
)
from minicc.onnxruntime.providers import choose
from minicc.onnxruntime.settings import RunOptions, SessionOptions
from minicc.onnxruntime.signature import (
    ModelMetadata,
    NodeArg,
    inputs_of,
    metadata_of,
    outputs_of,
    overridable_of,
)
from minicc.onnxruntime.values import OrtValue, OrtValueVector
from minicc.onnxruntime.writing import write_optimised
from minicc.runtime.programs import is_program

if TYPE_CHECKING:
    from minicc.compile import profile
    from minicc.onnxruntime import trace
else:
    profile, trace = Later("minicc.compile.profile"), Later("minicc.onnxruntime.trace")

_PROFILED_ROUNDS = 3
_RUN = "model_run"

Callback = Callable[[list[Any], Any, str], Any]


class InferenceSession:
    """A model that runs, with ONNX Runtime's interface.

    `path_or_bytes` is a path or bytes of an ONNX model or of a compiled program. Raises ONNX
    Runtime's exceptions (`capi.onnxruntime_pybind11_state`), whose cause is minicc's error. May be
    entered from several Python threads at once.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, dict[Any, Any]]] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        source = require_source(path_or_bytes)
        if sess_options is not None and not isinstance(sess_options, SessionOptions):
            kind = type(sess_options).__name__
            raise TypeError(f"sess_options is a {kind}, and must be a SessionOptions")
        self._model_path = None if isinstance(source, bytes) else source
        self._model_bytes = source if isinstance(source, bytes) else None
        self._sess_options = SessionOptions() if sess_options is None else sess_options._copy()
        self._enable_fallback = int(kwargs.pop("enable_fallback", 1)) == 1
        for name in kwargs:
            tell_once(f"the session's argument {name}")
        try:
            self._set(providers, provider_options)
        except (ValueError, RuntimeError) as error:
            if not self._enable_fallback:
                raise
            LOGGER.warning("%s; the CPU's execution provider is used", error)
            self._set(["CPUExecutionProvider"], None)

    def _set(self, providers: Any, provider_options: Any) -> None:
        """Choose execution providers and open the model with their options."""
        if not providers and self._sess_options.has_providers():
            providers = list(self._sess_options._providers.items())
        self._chosen = choose(providers, provider_options)
        self._open()

    def _open(self) -> None:
        asked = self._sess_options
        path = self._model_path
        source = path if path is not None else self._model_bytes
        assert source is not None
        self._trace: trace.Trace | None = None
        self._profile_began = 0
        if asked.enable_profiling:
            self._trace = trace.Trace(asked.profile_file_prefix)
            self._profile_began = self._trace.began
        began = time.monotonic_ns()
        try:
            source = with_given_data(source, asked)
            options = options_for(asked, self._chosen, source)
            self._session = session.InferenceSession(source, options=options)
            if asked.optimized_model_filepath:
                write_optimised(source, asked, self._session.options)
        except MiniccError as error:
            raise refused(error, source) from error
        facts = self._session.facts
        require_declared(facts)
        self._inputs_meta, self._outputs_meta = inputs_of(facts), outputs_of(facts)
        self._overridable = [] if is_program(source) else overridable_of(facts)
        self._args = {arg.name: arg for arg in (*self._inputs_meta, *self._overridable)}
        self._names = [arg.name for arg in self._outputs_meta]
        self._source = source
        self._others: dict[tuple[str, ...], session.InferenceSession] = {}
        self._profiled: dict[str, Any] | None = None
        if self._trace is not None:
            self._trace.add("session_initialization", began, time.monotonic_ns())
            self._unwritten = weakref.finalize(self, self._trace.write)

    @property
    def _sess(self) -> InferenceSession:
        """The session itself; ONNX Runtime has one of C++ here, which programs reach for."""
        return self

    @property
    def _providers(self) -> list[str]:
        return self.get_providers()

    @property
    def _provider_options(self) -> dict[str, dict[str, str]]:
        return self.get_provider_options()

    def run(
        self,
        output_names: Iterable[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The values of those outputs, of all with None or none, for arrays by input name.

        A value is an array, a list for a sequence, None for an empty optional. Inputs may also be
        nested lists and OrtValues. ValueError for inputs that have no value, InvalidArgument for
        names, types and shapes that are not the model's, RuntimeError for what is no array.
        """
        feeds.require_inputs(self._inputs_meta, input_feed.keys())
        return self._values(self._asked(output_names), input_feed, run_options)

    def _asked(self, output_names: Iterable[str] | None) -> list[str]:
        if output_names is None:
            return self._names
        if isinstance(output_names, str):
            raise TypeError(f"output_names is {output_names!r}, and must be a list of names")
        names = list(output_names)
        if not all(isinstance(name, str) for name in names):
            raise TypeError(f"output_names is {names}, and must be a list of names")
        return names or self._names

    def _values(
        self, names: list[str], feed: Mapping[str, Any], run_options: RunOptions | None
    ) -> list[Any]:
        """The values of outputs, for inputs that are all there or that the session misses."""
        if run_options is not None:
            _obey(run_options)
        if names is not self._names and not set(names) <= {*self._names}:
            unknown = ", ".join(repr(name) for name in names if name not in self._names)
            text = f"no output is called {unknown}; outputs: {', '.join(self._names)}"
            raise status(InvalidArgument, text)
        given = feeds.converted(self._args, feed)
        began = time.monotonic_ns()
        try:
            values = self._for(given).run(names, given)
        except MiniccError as error:
            raise running_error(error) from error
        if self._trace is not None:
            self._trace.add(_RUN, began, time.monotonic_ns())
            self._profiled = given
        return values

    def _for(self, feed: Mapping[str, Any]) -> session.InferenceSession:
        """The session whose inputs are those of a feed: with initialisers that are given too."""
        if not self._overridable or len(feed) <= len(self._inputs_meta):
            return self._session
        names = tuple(arg.name for arg in self._overridable if arg.name in feed)
        if names not in self._others:
            source = with_initialisers(self._source, {}, names)
            options = self._session.options
            self._others[names] = session.InferenceSession(source, options=options)
        return self._others[names]

    def run_async(
        self,
        output_names: Iterable[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callback,
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run in a thread of its own, and call `callback(values, user_data, error)` there.

        `error` is "" where the run succeeded, else its text, and there are no values. ValueError
        for inputs that have no value.
        """
        feeds.require_inputs(self._inputs_meta, input_feed.keys())
        names = self._asked(output_names)

        def work() -> None:
            try:
                values, text = self._values(names, input_feed, run_options), ""
            except Exception as error:
                values, text = [], str(error) or type(error).__name__
            callback(values, user_data, text)

        threading.Thread(target=work, name="minicc-run-async").start()

    def run_with_ort_values(
        self,
        output_names: Iterable[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """What `run` gives, as OrtValues for OrtValues."""
        feeds.require_inputs(self._inputs_meta, input_dict_ort_values.keys())
        feed = values_of(input_dict_ort_values)
        return [OrtValue(v) for v in self._values(self._asked(output_names), feed, run_options)]

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: OrtValueVector,
        fetch_devices: Sequence[Any],
    ) -> None:
        """Run for values in the order of their names; results are added to `fetches`."""
        feed = dict(zip(feed_names, feeds, strict=True))
        fetches.extend(self.run_with_ort_values(fetch_names, feed, run_options))

    def io_binding(self) -> IOBinding:
        """A binding of this session's inputs and outputs to memory."""
        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Run for what is bound; ValueError for a binding of another session.

        RuntimeError for whatever is wrong with the values.
        """
        made_by: object = iobinding._session
        if made_by is not self:
            raise ValueError("the binding was made by another session")
        iobinding.run(run_options)

    def get_inputs(self) -> list[NodeArg]:
        """The inputs in order."""
        return self._inputs_meta

    def get_outputs(self) -> list[NodeArg]:
        """The outputs in order."""
        return self._outputs_meta

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The initialisers that are inputs too; a run may give them other values."""
        return self._overridable

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says about itself."""
        return metadata_of(self._session.facts)

    def get_session_options(self) -> SessionOptions:
        """The options that the session was opened with."""
        return self._sess_options

    def get_providers(self) -> list[str]:
        """The execution providers of the session, the first choice first."""
        return list(self._chosen)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each execution provider."""
        return {name: dict(given) for name, given in self._chosen.items()}

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """Choose other execution providers, with which the model is opened again."""
        self._set(providers, provider_options)

    def disable_fallback(self) -> None:
        """Let bad execution providers be an error."""
        self._enable_fallback = False

    def enable_fallback(self) -> None:
        """Let the CPU's execution provider stand in for bad ones."""
        self._enable_fallback = True

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where the memory of each input lies."""
        return [cpu_memory() for _ in self._inputs_meta]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where the memory of each output lies."""
        return [cpu_memory() for _ in self._outputs_meta]

    def get_input_epdevices(self) -> list[OrtEpDevice]:
        """The device that reads each input."""
        device = next(d for d in get_ep_devices() if d.ep_name in self._chosen)
        return [device for _ in self._inputs_meta]

    def create_ortvalue_from_shape_and_type(
        self,
        shape: Sequence[int],
        element_type: Any,
        device_type: str,
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """A value that is not initialised; see `OrtValue.ortvalue_from_shape_and_type`."""
        make = OrtValue.ortvalue_from_shape_and_type
        return make(shape, element_type, device_type, device_id, vendor_id)

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Accept options for execution providers while a session is open."""
        for name in options:
            tell_once(f"the dynamic option {name}")

    def get_tuning_results(self) -> list[Any]:
        """What tuning found; minicc tunes nothing while it runs."""
        return []

    def set_tuning_results(self, results: Sequence[Any], *, error_on_invalid: bool = False) -> None:
        """Accept what tuning of ONNX Runtime found."""
        tell_once("set_tuning_results")

    def get_provider_graph_assignment_info(self) -> list[Any]:
        """Refuse to tell which provider runs which node: Fail, for all are minicc's."""
        raise status(Fail, "minicc runs all nodes, and records no assignment of them")

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Do nothing: no graph is captured on a CPU."""

    def get_profiling_start_time_ns(self) -> int:
        """When the profile began, by `time.monotonic_ns()`; 0 without one."""
        return self._profile_began

    def end_profiling(self) -> str:
        """Write the profile, and return the name of its file; "" where there is none."""
        ended, self._trace = self._trace, None
        if ended is None:
            return ""
        self._unwritten.detach()
        if self._profiled is not None:
            ended.add_launches(self._launches(self._profiled), _RUN)
        return ended.write()

    def _launches(self, feed: Mapping[str, Any]) -> list[Any]:
        """How long each kernel takes for inputs; none of a model that can't be so measured."""
        own = self._for(feed)
        try:
            arrays = check_inputs(own.signature, feed)
            binding = own.binding(arrays)
            inputs = list(arrays.values())
            return profile.profile(own.module, own.options, binding, inputs, _PROFILED_ROUNDS)
        except (UserError, UnsupportedError) as error:
            LOGGER.info("the profile has no kernels: %s", error)
            return []


def _obey(run_options: object) -> None:
    """Tell of options that change nothing, and raise Fail where they end the run."""
    if not isinstance(run_options, RunOptions):
        kind = type(run_options).__name__
        raise TypeError(f"run_options is a {kind}, and must be a RunOptions")
    run_options._tell()
    if run_options.terminate:
        raise status(Fail, "the run is ended, since its options say terminate")
