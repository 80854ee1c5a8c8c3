"""The machine as a value: what the compiler may assume of the processor it compiles for.

Three general targets, one for each register width of x86-64, are as the psABI levels v1, v3 and v4
of GCC and LLVM or Halide's target strings; named machines are one of these with the caches that
such a processor has. Code depends on the name alone and on the facts that stand here for it: which
name the host has is read from its CPUID, and nothing that is measured (`machine`) decides any code,
so that a cached kernel or a reported bug is the same everywhere.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Mapping
from functools import cache
from math import ceil
from typing import NamedTuple

# fmt: off
_V3_FLAGS = frozenset((
    "ssse3", "sse4_1", "sse4_2", "popcnt", "cx16", "avx", "avx2", "fma", "bmi1", "bmi2", "f16c",
    "abm", "movbe",
))
# fmt: on
_V4_FLAGS = _V3_FLAGS | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_LLVM_DOTS = {"avx512_vnni": "avx512vnni", "avx_vnni": "avxvnni"}
_LLVM_NAMES = {
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "bmi": "bmi1",
    "lzcnt": "abm",
    "amx-tile": "amx_tile",
    **{name: linux for linux, name in _LLVM_DOTS.items()},
}


class Caches(NamedTuple):
    """Bytes of a core's data caches, and of the last one, which cores share."""

    l1: int
    l2: int
    l3: int


class Target(NamedTuple):
    """A processor: `cpu` and `features` as LLVM spells them, the rest for schedules.

    `vector_bits` is the widest register, `registers` how many of them there are; `has_fma` and
    `has_masks` say whether a fused multiply-add and a masked store of any type are single
    instructions.
    `dots` are the forms of words (`ir.words`) whose products have an instruction, the best first.
    `l1` and `l2` are bytes of data cache a core, `l3` bytes of the one that cores share; `stream`
    is how many multiply-adds of float32 a core does while one number comes from memory. Two targets
    are equal when their names are.
    """

    name: str
    cpu: str
    features: str
    vector_bits: int
    registers: int
    has_fma: bool
    has_masks: bool
    l1: int
    l2: int
    l3: int
    needs: frozenset[str]
    stream: float = 12.0
    dots: tuple[str, ...] = ("i16",)

    def machine(self, name: str, caches: Caches, dots: str, stream: float) -> Target:
        """The machine of that name, which runs this target's code and has these caches.

        It may have the feature of that name, which multiplies words of bytes, too.
        """
        made = self._replace(name=name, stream=stream, **caches._asdict())
        if not dots:
            return made
        features = ",".join(filter(None, (self.features, f"+{_LLVM_DOTS[dots]}")))
        needs, forms = self.needs | {dots}, ("u8.i8", *self.dots)
        return made._replace(features=features, needs=needs, dots=forms)

    @property
    def near(self) -> int:
        """Bytes of a panel that count as in the first cache; of more than 32 KiB none was measured.

        Decisions that were found good on a Xeon and on Zen 5, which have 48, are kept so.
        """
        return min(self.l1, 1 << 15)

    @property
    def resident(self) -> int:
        """Bytes of an operand that stay in the second cache while a kernel passes over others.

        Half of it, but no more than was found good where it has 512 KiB, 1 and 2 MiB.
        """
        return min(self.l2 // 2, 1 << 18)

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
        """The target of that name; `KeyError` where there is none (see `MACHINES`)."""
        return MACHINES[name]

    @staticmethod
    def host() -> Target:
        """This machine, or the widest target that it runs; `RuntimeError` where it is no x86-64."""
        kinds = [MACHINES[name] for name in _host_names()]
        for target in (*kinds, *TARGETS.values()):
            if target.runs_here():
                return target
        raise RuntimeError(f"minicc generates code for x86-64, and this is {platform.machine()}")


# fmt: off
# LLVM would rather use 256 bits on AVX-512 (for memset and such); a frequency drop that no longer
# exists is the reason. Explicit <16 x float> becomes zmm either way.
_AVX512 = Target("avx512", "x86-64-v4", "-prefer-256-bit", 512, 32, has_fma=True, has_masks=True,
                 l1=32 << 10, l2=1 << 20, l3=32 << 20, needs=_V4_FLAGS)
_AVX2 = Target("avx2", "x86-64-v3", "", 256, 16, has_fma=True, has_masks=False,
               l1=32 << 10, l2=512 << 10, l3=32 << 20, needs=_V3_FLAGS)
_X86_64 = Target("x86-64", "x86-64", "", 128, 16, has_fma=False, has_masks=False,
                 l1=32 << 10, l2=256 << 10, l3=32 << 20, needs=frozenset())
# fmt: on

TARGETS = {target.name: target for target in (_AVX512, _AVX2, _X86_64)}
"""The general targets, widest first, with the caches that are usual."""

BASELINE = _X86_64
"""What every machine runs that runs any target."""


class _Known(NamedTuple):
    """A kind of processor: its target, its caches, how CPUID and LLVM tell it, its dots.

    `l1` and `l2` are KiB, `l3` MiB: what cores that share it have, or 32 of a server's. `stream` is
    as in `Target`. A `mark` is a feature that its maker's other kinds do not have.
    """

    target: Target
    l1: int
    l2: int
    l3: int
    vendor: str
    family: int
    models: Collection[int]
    llvm: Collection[str]
    dots: str = ""
    stream: float = 12.0
    mark: str = ""


_AMD, _INTEL = "AuthenticAMD", "GenuineIntel"
# fmt: off
_KNOWN = {
    "zen5": _Known(_AVX512, 48, 1024, 32, _AMD, 26, range(256), ("znver5",), "avx512_vnni"),
    "zen4": _Known(_AVX512, 32, 1024, 32, _AMD, 25,
                   (*range(0x10, 0x20), *range(0x60, 0x80), *range(0xA0, 0xB0)), ("znver4",),
                   "avx512_vnni"),
    "zen3": _Known(_AVX2, 32, 512, 32, _AMD, 25,
                   (*range(0x10), *range(0x20, 0x60)), ("znver3",)),
    "zen2": _Known(_AVX2, 32, 512, 16, _AMD, 23, range(0x30, 0x100), ("znver2",)),
    "sapphire-rapids": _Known(_AVX512, 48, 2048, 60, _INTEL, 6, (0x8F, 0xCF, 0xAD, 0xAE),
                              ("sapphirerapids", "emeraldrapids", "graniterapids"), "avx512_vnni",
                              stream=30.0, mark="amx_tile"),
    "ice-lake": _Known(_AVX512, 48, 1280, 48, _INTEL, 6, (0x6A, 0x6C), ("icelake-server",),
                       "avx512_vnni"),
    "cascade-lake": _Known(_AVX512, 32, 1024, 36, _INTEL, 6, (0x55,), ("cascadelake", "cooperlake"),
                           "avx512_vnni"),
    "skylake-x": _Known(_AVX512, 32, 1024, 36, _INTEL, 6, (0x55,), ("skylake-avx512",)),
    "alder-lake": _Known(_AVX2, 48, 1280, 30, _INTEL, 6, (0x97, 0x9A, 0xB7, 0xBA, 0xBF),
                         ("alderlake", "raptorlake"), "avx_vnni"),
    "haswell": _Known(_AVX2, 32, 256, 30, _INTEL, 6,
                      (0x3C, 0x3D, 0x3F, 0x45, 0x46, 0x47, 0x4E, 0x4F, 0x56, 0x5E, 0x8E, 0x9E,
                       0xA5, 0xA6), ("haswell", "broadwell", "skylake")),
}
# fmt: on
MACHINES = TARGETS | {
    name: kind.target.machine(
        name, Caches(kind.l1 << 10, kind.l2 << 10, kind.l3 << 20), kind.dots, kind.stream
    )
    for name, kind in _KNOWN.items()
}
"""All targets by their names: the general ones, and machines of which more is known."""


def _host_names() -> list[str]:
    """The kinds of machine that this may be, the likeliest first; none where nothing is known.

    A model that no kind lists, as a new one or one that a hypervisor makes up, is taken for its
    maker's newest kind whose instructions it has. Where there is no /proc, LLVM tells the model.
    """
    facts = _cpuinfo()
    numbers = [facts.get(name, "") for name in ("cpu family", "model")]
    if not facts:
        import llvmlite.binding as llvm

        found = llvm.get_host_cpu_name()
        vendor = _AMD if found.startswith("znver") else _INTEL
        same = [name for name, kind in _KNOWN.items() if found in kind.llvm]
    elif all(n.isdecimal() for n in numbers):
        family, model = map(int, numbers)
        vendor = facts.get("vendor_id", "")
        same = [
            name
            for name, kind in _KNOWN.items()
            if kind.vendor == vendor and kind.family == family and model in kind.models
        ]
    else:
        return []
    alike = ((name, kind.mark) for name, kind in _KNOWN.items() if kind.vendor == vendor)
    return same or [name for name, mark in alike if not mark or mark in host_flags()]


@cache
def host_flags() -> frozenset[str]:
    """The processor's features under Linux' names, less those that the system does not enable."""
    flags = _cpuinfo().get("flags")
    return frozenset(flags.split()) if flags else _flags_by_llvm()


@cache
def host_model() -> str:
    """What the processor calls itself."""
    return _cpuinfo().get("model name", "") or platform.processor() or platform.machine()


@cache
def _cpuinfo() -> Mapping[str, str]:
    """What Linux tells of the first processor; nothing on other systems."""
    facts: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if not value:
                    break
                facts[name.strip()] = value.strip()
    except OSError:
        pass
    return facts


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
        names = [name for name in group.split("/") if name]
        for depth in range(len(names), -1, -1):
            folder = "/".join((f"{mount}/{controllers}".rstrip("/"), *names[:depth]))
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


@cache
def last_cache() -> int:
    """Bytes of the third cache that this process shares; 0 where there is none or nothing tells."""
    size = _text("/sys/devices/system/cpu/cpu0/cache/index3/size", "")
    return int(size[:-1]) << 10 if size[:-1].isdecimal() and size.endswith("K") else 0
