"""The machine as facts: which kind it is, what its name decides, and what is measured and kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from minicc import target
from minicc.cli import commands
from minicc.compile import machine
from minicc.options import Options
from minicc.passes.structured.tile_cost import Place, Vectors, place_of
from minicc.target import MACHINES, TARGETS, Target

V3 = "ssse3 sse4_1 sse4_2 popcnt cx16 avx avx2 fma bmi1 bmi2 f16c abm movbe"
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"


def as_told(monkeypatch: pytest.MonkeyPatch, facts: Mapping[str, str]) -> Target:
    """The host where Linux tells such facts."""
    monkeypatch.setattr(target, "_cpuinfo", lambda: facts)
    target.host_flags.cache_clear()
    try:
        return Target.host()
    finally:
        monkeypatch.undo()
        target.host_flags.cache_clear()


@pytest.mark.parametrize(
    ("vendor", "family", "model", "flags", "name"),
    [
        ("AuthenticAMD", "25", "1", V3, "zen3"),
        ("AuthenticAMD", "25", "17", V4 + " avx512_vnni", "zen4"),
        ("AuthenticAMD", "25", "17", V4, "avx512"),
        ("AuthenticAMD", "25", "17", V3, "avx2"),  # a hypervisor may hide instructions
        ("GenuineIntel", "6", "143", V4 + " avx512_vnni", "sapphire-rapids"),
        ("GenuineIntel", "6", "94", V3, "haswell"),
        ("GenuineIntel", "6", "85", V4, "skylake-x"),
        ("GenuineIntel", "6", "85", V4 + " avx512_vnni", "cascade-lake"),
        # of models that are not listed, the instructions tell
        ("GenuineIntel", "6", "9999", V4, "skylake-x"),
        ("GenuineIntel", "6", "167", V4 + " avx512_vnni", "ice-lake"),
        ("GenuineIntel", "6", "167", V4 + " avx512_vnni amx_tile", "sapphire-rapids"),
        ("GenuineIntel", "6", "9999", V3 + " avx_vnni", "alder-lake"),
        ("AuthenticAMD", "99", "1", V4 + " avx512_vnni", "zen5"),
        ("GenuineIntel", "6", "9999", "sse2", "x86-64"),
        ("SomebodyElse", "25", "1", V3, "avx2"),
        ("AuthenticAMD", "25", "1", "sse2", "x86-64"),
    ],
)
def test_cpuid_tells_the_kind_of_machine(
    monkeypatch: pytest.MonkeyPatch, vendor: str, family: str, model: str, flags: str, name: str
) -> None:
    facts = {"vendor_id": vendor, "cpu family": family, "model": model, "flags": flags}
    assert as_told(monkeypatch, facts).name == name


def test_where_nothing_is_told_llvm_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Target.host()
    assert as_told(monkeypatch, {}) == known


def test_no_size_of_a_cache_is_asked_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a container without /sys makes the same code."""
    facts = [(t.l1, t.l2, t.l3) for t in MACHINES.values()]
    monkeypatch.setattr(target, "_text", lambda path, otherwise: otherwise)
    target.last_cache.cache_clear()
    assert target.last_cache() == 0
    target.last_cache.cache_clear()
    assert [(t.l1, t.l2, t.l3) for t in MACHINES.values()] == facts
    assert MACHINES.keys() > TARGETS.keys()


def test_doubles_leave_a_cache_at_half_the_depth() -> None:
    here = MACHINES["zen3"]
    floats, doubles = (Vectors(here.lanes(bits), here.vector_bits // 8) for bits in (32, 64))
    assert place_of(16, 512, 300, floats, here) == Place.FIRST
    assert place_of(16, 512, 300, doubles, here) != Place.FIRST
    assert place_of(16, 512, 150, doubles, here) == Place.FIRST


def test_rates_are_measured_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(threads=1, cache_dir=tmp_path)
    first = machine.measured(options)
    monkeypatch.setattr(machine, "_rates", lambda options: pytest.fail("measured again"))
    assert machine.measured(options) == first
    (rates,) = first
    assert rates.threads == 1
    assert rates.roof > 0
    assert {"L1", "L2", "memory"} <= rates.bandwidth.keys()
    with pytest.raises(pytest.fail.Exception):
        machine.measured(options, again=True)


def test_the_command_tells_of_this_machine_and_of_others(tmp_path: Path) -> None:
    env = {"MINICC_CACHE_DIR": str(tmp_path), "MINICC_THREADS": "1"}
    told = json.loads(CliRunner(env=env).invoke(commands, ["target", "--json"]).stdout)
    assert told["facts"]["name"] == Target.host().name
    assert [row["threads"] for row in told["measured"]] == [1]
    shown = CliRunner(env=env).invoke(commands, ["target"]).stdout
    assert "read from L2" in shown
    other = next(name for name in MACHINES if name != Target.host().name)
    told = json.loads(CliRunner(env=env).invoke(commands, ["target", other, "--json"]).stdout)
    assert told["facts"]["name"] == other
    assert "measured" not in told
