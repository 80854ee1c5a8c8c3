"""Devices and memory as ONNX Runtime tells of them: here it is always the CPU's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from minicc.onnxruntime.enums import (
    OrtAllocatorType,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtHardwareDeviceType,
    OrtMemType,
)
from minicc.onnxruntime.log import whole
from minicc.onnxruntime.providers import AVAILABLE
from minicc.version import VERSION

# the kinds of device that programs may name, with ONNX Runtime's number and the vendor
_DEVICES = {
    "cpu": (0, OrtDeviceVendorId.NONE),
    "gpu": (1, OrtDeviceVendorId.NONE),
    "cuda": (1, OrtDeviceVendorId.NVIDIA),
    "dml": (1, OrtDeviceVendorId.MICROSOFT),
    "webgpu": (1, OrtDeviceVendorId.NONE),
    "npu": (3, OrtDeviceVendorId.NONE),
    "cann": (3, OrtDeviceVendorId.HUAWEI),
}


class OrtDevice:
    """A device by kind and number; memory can be had of the CPU's alone."""

    def __init__(self, kind: int, number: int, vendor: int) -> None:
        self._kind, self._number, self._vendor = kind, number, vendor

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """The device of that name and number; an Exception for a name that is no device's."""
        if ort_device_name not in _DEVICES:
            known = ", ".join(_DEVICES)
            raise Exception(f"no device is called {ort_device_name!r}; devices: {known}")
        kind, vendor = _DEVICES[ort_device_name]
        number = whole(device_id, "the device's number")
        return OrtDevice(kind, number, int(vendor) if vendor_id == -1 else int(vendor_id))

    def device_id(self) -> int:
        """The number of the device among those of its kind."""
        return self._number

    def device_type(self) -> int:
        """The kind of the device: 0 a CPU, 1 a GPU, 2 an FPGA, 3 an NPU."""
        return self._kind

    def device_mem_type(self) -> int:
        """The kind of its memory, always the default."""
        return int(OrtDeviceMemoryType.DEFAULT)

    def device_vendor_id(self) -> int:
        """The PCI number of the vendor, 0 for any."""
        return self._vendor


def require_cpu(name: str, device_id: int = 0) -> None:
    """Raise a RuntimeError unless the device is the CPU, an Exception where it is none."""
    if OrtDevice.make(name, device_id).device_type() != 0:
        text = f"minicc runs on the CPU, and can't have memory of the device {name!r}"
        raise RuntimeError(f"{text}: leave the device out")


class OrtMemoryInfo:
    """Where memory lies and who gives it."""

    def __init__(
        self, name: str, allocator: OrtAllocatorType, device_id: int, mem_type: OrtMemType
    ) -> None:
        self.name = name
        self.allocator_type = allocator
        self.device_id = whole(device_id, "the device's number")
        self.mem_type = mem_type
        self.device_mem_type = OrtDeviceMemoryType.DEFAULT
        self.device_vendor_id = int(OrtDeviceVendorId.NONE)


class OrtArenaCfg:
    """The limits of an arena; `max_mem` is the one that minicc has: bytes that a model may need.

    Takes the values in order (max_mem, extend strategy, initial chunk, most dead bytes), or a dict.
    """

    def __init__(
        self,
        max_mem: int | Mapping[str, int],
        arena_extend_strategy: int = -1,
        initial_chunk_size_bytes: int = -1,
        max_dead_bytes_per_chunk: int = -1,
    ) -> None:
        self.max_mem = 0
        self.arena_extend_strategy = arena_extend_strategy
        self.initial_chunk_size_bytes = initial_chunk_size_bytes
        self.max_dead_bytes_per_chunk = max_dead_bytes_per_chunk
        self.initial_growth_chunk_size_bytes = -1
        self.max_power_of_two_extend_bytes = -1
        given = max_mem if isinstance(max_mem, Mapping) else {"max_mem": max_mem}
        for name, value in given.items():
            if name not in vars(self):
                raise RuntimeError(f"an arena has no {name}; it has {', '.join(vars(self))}")
            setattr(self, name, int(value))


class OrtHardwareDevice(NamedTuple):
    """A device of the machine."""

    type: OrtHardwareDeviceType
    vendor: str
    vendor_id: int
    device_id: int
    metadata: dict[str, str]


class OrtEpDevice(NamedTuple):
    """A device with the execution provider that runs on it."""

    ep_name: str
    ep_vendor: str
    ep_metadata: dict[str, str]
    ep_options: dict[str, str]
    device: OrtHardwareDevice

    def memory_info(self, kind: Any) -> OrtMemoryInfo:
        """The memory of the device; the same for each kind."""
        return cpu_memory()


def get_ep_devices() -> list[OrtEpDevice]:
    """The execution providers, each with the CPU."""
    cpu = OrtHardwareDevice(OrtHardwareDeviceType.CPU, "", 0, 0, {})
    return [OrtEpDevice(name, "minicc", {"version": VERSION}, {}, cpu) for name in AVAILABLE]


def cpu_memory() -> OrtMemoryInfo:
    """The CPU's memory."""
    return OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, OrtMemType.DEFAULT)
