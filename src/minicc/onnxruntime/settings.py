"""`SessionOptions` and `RunOptions`: every setting, its type, its default, and what it does here.

`Setting.effect` says what a setting does with minicc; "" marks one that is accepted, and told once
when a program sets it to another value than the default. The documentation's table is made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

from minicc.onnxruntime.enums import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from minicc.onnxruntime.errors import Fail, InvalidArgument, status
from minicc.onnxruntime.errors import NotImplemented as NotImplementedStatus
from minicc.onnxruntime.log import tell_once, whole
from minicc.onnxruntime.providers import AVAILABLE, KNOWN
from minicc.onnxruntime.values import OrtValue

T = TypeVar("T")

_LONGEST_KEY = 1024  # characters of a configuration's key
# what configuration entries do here; all others are accepted
CONFIG_EFFECTS = {
    "session.intra_op.allow_spinning": "0: threads that wait sleep at once, Options(spin=False)",
    "session.model_external_initializers_file_folder_path": (
        "the folder of the initialisers' files, for a model that is given as bytes"
    ),
    "session.optimized_model_external_initializers_file_name": (
        "the file of the initialisers of an ONNX model that is written as optimised"
    ),
    "session.optimized_model_external_initializers_min_size_in_bytes": (
        "how large initialisers in that file are at least, 1024 by default"
    ),
    "session.save_model_format": "ONNX: an optimised model is an ONNX file; else as its path says",
    "session.set_denormal_as_zero": (
        "0: denormal operands are no zeros, Options(keep_denormals=True)"
    ),
    "session.use_env_allocators": "1 makes a registered arena's max_mem the session's memory limit",
}


class Setting(Generic[T]):
    """An attribute of options: checked when it is set, and with a default.

    `effect` says what it does with minicc, "" that it does nothing. TypeError for a value of
    another type than ONNX Runtime takes.
    """

    def __init__(self, kind: type[T], default: T, effect: str = "") -> None:
        self.kind, self.default, self.effect = kind, default, effect

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Setting[T]: ...

    @overload
    def __get__(self, instance: Configured, owner: type) -> T: ...

    def __get__(self, instance: Configured | None, owner: type) -> T | Setting[T]:
        if instance is None:
            return self
        value: T = instance._values.get(self.name, self.default)
        return value

    def __set__(self, instance: Configured, value: object) -> None:
        instance._values[self.name] = self._checked(value)

    def _checked(self, value: Any) -> Any:
        if self.kind is int:
            return whole(value, self.name)
        if self.kind is bool:
            if value is None or hasattr(type(value), "__bool__"):
                return bool(value)
        elif isinstance(value, self.kind):
            return value
        kind = self.kind.__name__
        raise TypeError(f"{self.name} is {value!r}, and must be of the type {kind}")


class Configured:
    """Settings, and configuration entries by name."""

    __slots__ = ("_entries", "_values")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._entries: dict[str, str] = {}

    @classmethod
    def settings(cls) -> dict[str, Setting[Any]]:
        """The settings by name."""
        return {n: s for n, s in vars(cls).items() if isinstance(s, Setting)}

    def _add(self, key: object, value: object) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"a configuration is two texts, not {key!r} and {value!r}")
        if not 0 < len(key) <= _LONGEST_KEY:
            text = f"a configuration's key has from 1 to {_LONGEST_KEY} characters"
            raise RuntimeError(f"{text}, not {len(key)}")
        self._entries[key] = value

    def _entry(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"{type(self).__name__} has no configuration with the key {key!r}")
        return self._entries[key]

    def _tell(self) -> None:
        """Tell of what was set and changes nothing."""
        kind = type(self).__name__
        for name, setting in self.settings().items():
            if not setting.effect and self._values.get(name, setting.default) != setting.default:
                tell_once(f"{kind}.{name}")
        for key in self._entries:
            if key not in CONFIG_EFFECTS:
                tell_once(f"the configuration {key}")


class RunOptions(Configured):
    """Options of one run."""

    __slots__ = ()

    log_severity_level = Setting(int, -1)
    log_verbosity_level = Setting(int, 0)
    logid = Setting(str, "")
    only_execute_path_to_fetches = Setting(bool, False)
    terminate = Setting(bool, False, "a run with it raises Fail before it begins")

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Set a configuration of the run; RuntimeError for a key that is empty or too long."""
        self._add(key, value)

    def get_run_config_entry(self, key: str) -> str:
        """The configuration of that key; RuntimeError where there is none."""
        return self._entry(key)

    def add_active_adapter(self, adapter: object) -> None:
        """Refuse an adapter of low rank, for there are none: NotImplemented."""
        raise status(NotImplementedStatus, "minicc has no LoRA adapters: merge it into the model")


class SessionOptions(Configured):
    """Options of a session; changes after a session was opened do not reach it."""

    __slots__ = (
        "_by_denotation", "_by_name", "_cancelled", "_files", "_initialisers", "_providers"
    )  # fmt: skip

    enable_cpu_mem_arena = Setting(bool, True)
    enable_mem_pattern = Setting(bool, True)
    enable_mem_reuse = Setting(bool, True)
    enable_profiling = Setting(bool, False, "runs are timed; end_profiling writes a Chrome trace")
    execution_mode = Setting(ExecutionMode, ExecutionMode.ORT_SEQUENTIAL)
    execution_order = Setting(ExecutionOrder, ExecutionOrder.DEFAULT)
    graph_optimization_level = Setting(
        GraphOptimizationLevel, GraphOptimizationLevel.ORT_ENABLE_ALL
    )
    inter_op_num_threads = Setting(int, 0)
    intra_op_num_threads = Setting(
        int, 0, "threads that share a run, the caller's among them: Options(threads=...)"
    )
    log_severity_level = Setting(int, -1)
    log_verbosity_level = Setting(int, 0)
    logid = Setting(str, "")
    optimized_model_filepath = Setting(
        str, "", "the model is written there: as ONNX for .onnx, else as a compiled program"
    )
    profile_file_prefix = Setting(str, "onnxruntime_profile_", "how the name of the profile begins")
    use_deterministic_compute = Setting(
        bool, False, "always so: the same bits from run to run and for any number of threads"
    )
    use_per_session_threads = Setting(
        bool, True, "off: the threads of set_global_thread_pool_sizes"
    )

    def __init__(self) -> None:
        super().__init__()
        self._by_name: dict[str, int] = {}
        self._by_denotation: dict[str, int] = {}
        self._initialisers: dict[str, OrtValue] = {}
        self._files: dict[str, bytes] = {}
        self._providers: dict[str, dict[str, str]] = {}
        self._cancelled = False

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Set a configuration of the session; RuntimeError for a key that is empty or too long."""
        self._add(key, value)

    def get_session_config_entry(self, key: str) -> str:
        """The configuration of that key; RuntimeError where there is none."""
        return self._entry(key)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Bind the free dimension of that name to a number: Options(sizes=...)."""
        self._by_name[_text(name, "a dimension's name")] = whole(size, f"the size of {name}")

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Bind each free dimension of an input with that denotation to a number."""
        what = f"the size of {denotation}"
        self._by_denotation[_text(denotation, "a denotation")] = whole(size, what)

    def add_initializer(self, name: str, value: OrtValue) -> None:
        """Put a tensor in the place of the initialiser of that name.

        RuntimeError for what is no OrtValue, and for a second value.
        """
        if not isinstance(value, OrtValue):
            raise RuntimeError(f"the initialiser {name} is {value!r}, and must be an OrtValue")
        if name in self._initialisers:
            raise RuntimeError(f"the initialiser {name} has a value already")
        self._initialisers[_text(name, "an initialiser's name")] = value

    def add_external_initializers(self, names: list[str], values: list[OrtValue]) -> None:
        """Put tensors in the place of initialisers, whose data need not be there."""
        if len(names) != len(values):
            raise RuntimeError(f"{len(names)} names can't have {len(values)} values")
        for name, value in zip(names, values, strict=True):
            self.add_initializer(name, value)

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int]
    ) -> None:
        """Give the bytes of files that initialisers lie in, by the names that the model has."""
        for name, buffer, length in zip(names, buffers, lengths, strict=True):
            self._files[_text(name, "a file's name")] = bytes(memoryview(buffer)[:length])

    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        """Register an execution provider, for sessions that are given none.

        RuntimeError for one that nobody knows, InvalidArgument for one that is not here.
        """
        if name not in KNOWN:
            raise RuntimeError(f"no execution provider is called {name}")
        if name not in AVAILABLE:
            here = ", ".join(AVAILABLE)
            raise status(InvalidArgument, f"{name} is not here; execution providers: {here}")
        self._providers[name] = {str(key): str(value) for key, value in options.items()}

    def add_provider_for_devices(self, devices: Sequence[Any], options: Mapping[str, str]) -> None:
        """Register the execution provider of devices (see `get_ep_devices`)."""
        for name in dict.fromkeys(device.ep_name for device in devices):
            self.add_provider(name, options)

    def has_providers(self) -> bool:
        """Whether an execution provider was registered."""
        return bool(self._providers)

    def set_provider_selection_policy(self, policy: object) -> None:
        """Accept how a device is to be chosen; there is one alone, the CPU."""
        tell_once("SessionOptions.set_provider_selection_policy")

    def set_provider_selection_policy_delegate(self, choose: Callable[..., Any]) -> None:
        """Accept who is to choose a device; there is one alone, the CPU."""
        tell_once("SessionOptions.set_provider_selection_policy_delegate")

    def set_load_cancellation_flag(self, cancelled: bool) -> None:
        """Say whether sessions that are opened with these options raise ModelLoadCanceled."""
        self._cancelled = bool(cancelled)

    def register_custom_ops_library(self, path: str) -> None:
        """Refuse a library of operators: NotImplemented, or Fail where there is no such file."""
        try:
            open(path, "rb").close()
        except OSError as error:
            text = f"the library {path} can't be read: {error.strerror}"
            raise status(Fail, text) from None
        text = f"{path}: libraries of operators are made for ONNX Runtime and can't be loaded"
        raise status(NotImplementedStatus, text)

    def _copy(self) -> SessionOptions:
        """The options as they are now."""
        other = SessionOptions()
        for slot in (*Configured.__slots__, *SessionOptions.__slots__):
            value = getattr(self, slot)
            setattr(other, slot, value if isinstance(value, bool) else dict(value))
        return other


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r}, and must be a text")
    return value
