"""The machine as a value: what the compiler may assume of the processor it compiles for.

Three named targets, one for each register width of x86-64, are all that code generation sees, as
with the psABI levels v1, v3 and v4 of GCC and LLVM or Halide's target strings: code depends on the
name alone and never on the host, so that a cached kernel or a reported bug is the same everywhere.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Collection
from functools import cache
from math import ceil
from pathlib import PurePosixPath

# fmt: off
_V3_FLAGS = frozenset((
    "ssse3", "sse4_1", "sse4_2", "popcnt", "cx16", "avx", "avx2", "fma", "bmi1", "bmi2", "f16c",
    "abm", "movbe",
))
# fmt: on
_V4_FLAGS = _V3_FLAGS | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_LLVM_NAMES = {
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "bmi": "bmi1",
    "lzcnt": "abm",
}


class Target:
    """A processor: `cpu` and `features` as LLVM spells them, the rest for schedules.

    `vector_bits` is the widest register, `registers` how many of them there are; `has_fma` and
    `has_masks` say whether a fused multiply-add and a masked store of any type are single
    instructions.
    `l1` and `l2` are bytes of data cache a core: the least that such machines have, as a plan may
    not depend on the host. Two targets are equal when their names are.
    """

    __slots__ = (
        "cpu",
        "features",
        "has_fma",
        "has_masks",
        "l1",
        "l2",
        "name",
        "needs",
        "registers",
        "vector_bits",
    )

    def __init__(
        self,
        name: str,
        cpu: str,
        features: str,
        vector_bits: int,
        registers: int,
        *,
        has_fma: bool,
        has_masks: bool,
        l1: int,
        l2: int,
        needs: frozenset[str],
    ) -> None:
        self.name = name
        self.cpu = cpu
        self.features = features
        self.vector_bits = vector_bits
        self.registers = registers
        self.has_fma = has_fma
        self.has_masks = has_masks
        self.l1 = l1
        self.l2 = l2
        self.needs = needs

    def lanes(self, bits: int) -> int:
        """How many elements of `bits` bits a register holds."""
        return self.vector_bits // bits

    def masks(self, bits: int) -> bool:
        """Whether vectors of elements of `bits` bits are read and written under a mask."""
        return self.has_masks or (bits >= 32 and self.vector_bits >= 256)

    def runs_here(self) -> bool:
        """Whether this machine can execute code for the target."""
        return platform.machine() in ("x86_64", "AMD64") and self.needs <= host_flags()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Target({self.name!r})"

    @staticmethod
    def named(name: str) -> Target:
        """The target of that name; `KeyError` where there is none (see `TARGETS`)."""
        return TARGETS[name]

    @staticmethod
    def host() -> Target:
        """The widest target that this machine runs; `RuntimeError` where it is no x86-64."""
        for target in TARGETS.values():
            if target.runs_here():
                return target
        raise RuntimeError(f"minicc generates code for x86-64, and this is {platform.machine()}")


# LLVM would rather use 256 bits on AVX-512 (for memset and such); a frequency drop that no longer
# exists is the reason. Explicit <16 x float> becomes zmm either way.
_AVX512 = Target(
    "avx512",
    "x86-64-v4",
    "-prefer-256-bit",
    512,
    32,
    has_fma=True,
    has_masks=True,
    l1=32 << 10,
    l2=1 << 20,
    needs=_V4_FLAGS,
)
_AVX2 = Target(
    "avx2",
    "x86-64-v3",
    "",
    256,
    16,
    has_fma=True,
    has_masks=False,
    l1=32 << 10,
    l2=256 << 10,
    needs=_V3_FLAGS,
)
_X86_64 = Target(
    "x86-64",
    "x86-64",
    "",
    128,
    16,
    has_fma=False,
    has_masks=False,
    l1=32 << 10,
    l2=256 << 10,
    needs=frozenset(),
)

TARGETS = {target.name: target for target in (_AVX512, _AVX2, _X86_64)}
"""The named targets, widest first."""


@cache
def host_flags() -> frozenset[str]:
    """The processor's features under Linux' names, less those that the system does not enable."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return _flags_by_llvm()


def _flags_by_llvm() -> frozenset[str]:
    """The same, asked of LLVM where there is no /proc (it reads CPUID and XGETBV)."""
    import llvmlite.binding as llvm

    found = llvm.get_host_cpu_features()
    return frozenset(_LLVM_NAMES.get(name, name) for name, there in found.items() if there)


def usable_cores() -> int:
    """Cores that this process may use: its affinity, twins of one core once, and its CPU quota.

    Twins count once because two threads of multiply-adds on one core run no faster than one.
    """
    cores = {
        _text(f"/sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list", str(n))
        for n in _allowed()
    }
    return max(1, min(len(cores), int(cpu_quota())))


def usable_processors() -> int:
    """Threads that can run at once in this process: as `usable_cores`, but twins count twice."""
    return max(1, min(len(_allowed()), ceil(cpu_quota())))


def _allowed() -> Collection[int]:
    try:
        return os.sched_getaffinity(0)
    except AttributeError:
        return range(os.cpu_count() or 1)


def cpu_quota(cgroup: str = "/proc/self/cgroup", mount: str = "/sys/fs/cgroup") -> float:
    """Processors' worth of time that this process' control group and those above it are given.

    Both versions of control groups are looked at. In a container a group is often mounted as the
    root whatever its name, so names that are not there are passed over.
    """
    quota = float(1 << 16)
    for line in _text(cgroup, "0::/").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        path = PurePosixPath(group)
        for parent in (path, *path.parents):
            folder = f"{mount}/{controllers}{parent}".rstrip("/")
            if controllers:
                limit = _text(f"{folder}/cpu.cfs_quota_us", "-1")
                period = _text(f"{folder}/cpu.cfs_period_us", "100000")
            else:
                limit, _, period = _text(f"{folder}/cpu.max", "max 100000").partition(" ")
            if limit.isdecimal() and period.isdecimal() and int(period):
                quota = min(quota, int(limit) / int(period))
    return quota


@cache
def usable_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or its group's if less."""
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 1 << 62
    group = _text("/sys/fs/cgroup/memory.max", "max")
    return min(there, int(group)) if group.isdecimal() and int(group) else there


def _text(path: str, otherwise: str) -> str:
    """A small file's text, or `otherwise` where it can't be read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return otherwise
