"""What ONNX Runtime has one of in a process: threads that sessions share, arenas, the version."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from minicc.frontends.onnx.host import registry
from minicc.onnxruntime.devices import OrtArenaCfg, OrtMemoryInfo
from minicc.onnxruntime.errors import Fail, status
from minicc.onnxruntime.log import LOGGER, tell_once, whole
from minicc.version import VERSION

# The version of ONNX Runtime whose interface this is; programs compare it with what they need.
API_VERSION = "1.31.1"


class Environment:
    """What was set for all sessions to come: threads that they share, and bytes of their arena."""

    def __init__(self) -> None:
        self.threads = 0
        self.arena_bytes = 0


ENVIRONMENT = Environment()


def get_version_string() -> str:
    """The version of ONNX Runtime whose interface this is."""
    return API_VERSION


def get_build_info() -> str:
    """What computes: minicc and its version."""
    return f"minicc {VERSION} with the interface of ONNX Runtime {API_VERSION}"


def get_device() -> str:
    """The device that models run on, always `CPU`."""
    return "CPU"


def has_collective_ops() -> bool:
    """Whether there are operators over several machines; there are none."""
    return False


def set_seed(seed: int) -> None:
    """Begin the random numbers anew of nodes that have no seed of their own."""
    registry.set_seed(whole(seed, "the seed"))


def set_global_thread_pool_sizes(
    intra_op_num_threads: int = 0, inter_op_num_threads: int = 0
) -> None:
    """Set the threads of sessions with `use_per_session_threads` off; 0 for all cores."""
    ENVIRONMENT.threads = max(0, whole(intra_op_num_threads, "intra_op_num_threads"))
    if whole(inter_op_num_threads, "inter_op_num_threads"):
        tell_once("inter_op_num_threads")


def create_and_register_allocator(info: OrtMemoryInfo, config: OrtArenaCfg | None) -> None:
    """Register an arena for sessions with the configuration `session.use_env_allocators`.

    Its `max_mem` becomes the bytes that a model may need; the rest is accepted.
    """
    if not isinstance(info, OrtMemoryInfo):
        raise TypeError(f"an allocator needs an OrtMemoryInfo, not {info!r}")
    ENVIRONMENT.arena_bytes = 0 if config is None else max(0, config.max_mem)


def create_and_register_allocator_v2(
    provider: str, info: OrtMemoryInfo, options: Mapping[str, str], config: OrtArenaCfg | None
) -> None:
    """Register an arena for an execution provider, as `create_and_register_allocator` does."""
    create_and_register_allocator(info, config)


def enable_telemetry_events() -> None:
    """Accept that events may be sent; minicc sends none."""


def disable_telemetry_events() -> None:
    """Do nothing: minicc sends no events."""


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: Any = None
) -> None:
    """Accept libraries of CUDA to load; minicc uses none."""
    tell_once("preload_dlls")


def print_debug_info() -> None:
    """Print the versions of what is at work."""
    python = sys.version.split()[0]
    print(f"{get_build_info()}\nPython {python}, NumPy {np.__version__}\n{platform.platform()}")


def register_execution_provider_library(name: str, path: str) -> None:
    """Refuse the library of an execution provider: Fail."""
    text = f"{path}: libraries of execution providers are made for ONNX Runtime"
    raise status(Fail, f"{text} and can't be loaded")


def unregister_execution_provider_library(name: str) -> None:
    """Refuse to unload what can't have been loaded: Fail."""
    raise status(Fail, f"no library of an execution provider is registered as {name!r}")


def told_threads(count: int, most: int) -> int:
    """The number of threads that minicc has for so many; fewer are told at level warning."""
    if count > most:
        LOGGER.warning("%d threads were asked for, and a session has %d at most", count, most)
    return min(count, most)
