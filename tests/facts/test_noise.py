"""Every source of noise, planted one at a time in an otherwise quiet machine."""

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.facts import findings
from fleet.facts.systems import describe_serious_findings, find_noise, list_unknown
from fleet.model import (
    Condition,
    Cpu,
    Dimm,
    Facts,
    Load,
    Memory,
    Program,
    Severity,
    Usage,
)

FINDINGS = json.loads((Path(findings.__file__).with_suffix(".json")).read_text())
PAGE = Path(__file__).parents[2] / "docs" / "check.md"
QUIET = Facts(
    os="linux",
    arch="x86_64",
    cpu_flags=("constant_tsc", "nonstop_tsc"),
    microcode="0x12b",
    governor="performance",
    frequency_driver="intel_pstate",
    boost=False,
    idle_driver="intel_idle",
    idle_state="C1E",
    idle_exit_us=10,
    rt_runtime_us=-1,
    irqbalance=False,
    core_throttles=0,
    package_throttles=0,
    clock_source="tsc",
    isolated_cpus=(1,),
    nohz_full_cpus=(1,),
    cpus=(Cpu(0, node=0), Cpu(1, node=1)),
    load=Load(load_1m=0.1, running=1, temperature_c=40.0, steal_ticks=7),
)
SERIOUS = Severity.SERIOUS
WARNING = Severity.WARNING
INFO = Severity.INFO
PLANTED = [
    ("governor", WARNING, {"governor": "schedutil"}),
    ("boost", WARNING, {"boost": True}),
    ("boost", INFO, {"boost": None}),
    ("driver", INFO, {"frequency_driver": "acpi-cpufreq"}),
    ("idle", INFO, {"idle_exit_us": 133, "idle_state": "C6"}),
    ("throttled", WARNING, {"core_throttles": 3}),
    ("throttled", WARNING, {"package_throttles": 1, "core_throttles": None}),
    ("temperature", WARNING, {"load": Load(temperature_c=96.0)}),
    ("hypervisor", WARNING, {"hypervisor": "kvm"}),
    ("microcode", INFO, {"microcode": None}),
    ("container", INFO, {"container": "docker"}),
    ("quota", WARNING, {"cpu_quota": 0.4, "cpu_limit": "control group /, 0.4 CPUs"}),
    ("quota", INFO, {"cpu_quota": 0.5, "cpu_limit": "control group /, 0.5 CPUs"}),
    ("resctrl", WARNING, {"resctrl": "MB:0=50"}),
    (
        "memory",
        INFO,
        {"memory_limit": "ulimit -v, 96 MiB", "memory_available_bytes": 96 << 20},
    ),
    ("channel", WARNING, {"memory": Memory(channels=2, channels_populated=1)}),
    (
        "dimms",
        INFO,
        {
            "memory": Memory(
                (Dimm("A1", size_bytes=1 << 33), Dimm("B1", size_bytes=1 << 34))
            )
        },
    ),
    (
        "dimm_speed",
        INFO,
        {"memory": Memory((Dimm("A1", rated_mts=3200, configured_mts=2933),))},
    ),
    (
        "processes",
        SERIOUS,
        {"processes_most": 9, "cpus": (Cpu(0, node=0), Cpu(1, node=1))},
    ),
    ("priority", INFO, {"priority_most": 0}),
    ("clock", WARNING, {"clock_source": "hpet"}),
    ("clock", WARNING, {"clock_source": "acpi_pm"}),
    ("clock", WARNING, {"clock_source": "jiffies"}),
    ("clock", WARNING, {"cpu_flags": ("fpu", "constant_tsc")}),
    ("clock", WARNING, {"arch": "armv7", "clock_source": "jiffies"}),
    ("numa_balancing", WARNING, {"numa_balancing": True}),
    ("irqbalance", INFO, {"irqbalance": True}),
    ("rt_throttling", INFO, {"rt_runtime_us": 950_000}),
    ("pages", INFO, {"page_bytes": 65536}),
    ("mitigations", INFO, {"kernel_cmdline": "quiet mitigations=off"}),
    ("smt", INFO, {"smt": True}),
    ("contradiction", WARNING, {"contradictions": {"online": "/sys lists CPU 4"}}),
    ("contradiction", INFO, {"contradictions": {"nodes": "CPU 0 is in both"}}),
    (
        "contradiction",
        INFO,
        {"contradictions": {"cpuinfo": "/proc/cpuinfo lists CPU 4"}},
    ),
    ("offline", WARNING, {"cpus": (Cpu(0), Cpu(3, online=False))}),
    ("barred", WARNING, {"cpus": (Cpu(0), Cpu(3, allowed=False))}),
    ("isolated", INFO, {"cpus": (Cpu(0), Cpu(3, allowed=False, isolated=True))}),
    ("hybrid", INFO, {"cpus": (Cpu(0, kind="performance"), Cpu(1, kind="efficiency"))}),
    ("isolation", INFO, {"isolated_cpus": ()}),
    ("tick", INFO, {"nohz_full_cpus": ()}),
    ("load", SERIOUS, {"load": Load(load_1m=1.5)}),
]
# which the agent reads itself
COUNTERS = (
    "tsc",
    "kvm-clock",
    "xen",
    "hyperv_clocksource_tsc_page",
)
SENTENCES = {
    "boost",
    "temperature",
    "hypervisor",
    "container",
    "quota",
    "clock",
    "mitigations",
}
SENTENCES |= {
    "resctrl",
    "isolation",
    "isolated",
    "tick",
    "memory",
    "priority",
    "pages",
    "contradiction",
}
SENTENCES |= {"channel", "dimms", "dimm_speed"}


def test_a_quiet_machine_has_no_findings() -> None:
    assert find_noise(QUIET, Usage(busy_cpus=0.25)) == ()


@pytest.mark.parametrize(("kind", "severity", "planted"), PLANTED)
def test_a_planted_source_of_noise_is_the_one_found_and_its_remedy_is_a_sentence_or_valid_shell(
    kind: str, severity: Severity, planted: dict[str, object]
) -> None:
    (result,) = find_noise(replace(QUIET, **planted))
    assert result.kind == kind
    assert result.severity == severity
    for field in result.evidence.split(", "):
        assert hasattr(QUIET, field) or hasattr(QUIET.load, field)
    if result.remedy[0].isupper():
        assert kind in SENTENCES
        return
    command = result.remedy.partition(" # ")[0]
    subprocess.run(["/bin/sh", "-n", "-c", command], check=True)
    subprocess.run(["/bin/sh", "-n", "-c", result.remedy], check=True)


def test_the_page_explains_every_finding() -> None:
    rows = [
        row
        for row in PAGE.read_text().split("\n## ")[1].splitlines()
        if row[:3] == "| `"
    ]
    explained = {
        kind for row in rows for kind in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    assert explained == {kind for kind, _, _ in PLANTED} | {"busy", "steal"}


def test_the_page_names_the_condition_of_every_finding() -> None:
    rows = [
        row.split("|") for row in PAGE.read_text().splitlines() if row.startswith("| `")
    ]
    named = {
        condition: set(re.findall(r"`(\w+)`", row[2]))
        for row in rows
        if (condition := row[1].strip(" `"))
    }
    for condition in Condition:
        kinds = {
            name.partition(".")[0]
            for name, texts in FINDINGS.items()
            if texts.get("condition") == condition
        }
        assert named[condition] == kinds


@pytest.mark.parametrize(
    ("facts", "kinds"),
    [
        (Facts("linux", "x86_64"), ["boost", "microcode"]),
        (Facts("linux", "aarch64"), ["boost"]),
        (replace(QUIET, microcode=None, hypervisor="kvm"), ["hypervisor"]),
        *((replace(QUIET, clock_source=source), []) for source in COUNTERS),
    ],
)
def test_what_is_unknown_or_usual_is_a_finding_only_where_it_matters(
    facts: Facts, kinds: list[str]
) -> None:
    assert sorted(finding.kind for finding in find_noise(facts)) == kinds


def test_boost_says_how_much_it_can_change() -> None:
    (result,) = find_noise(replace(QUIET, boost=True))
    assert "a factor of 2.6" in result.found


@pytest.mark.parametrize("driver", ["intel_pstate", "amd-pstate-epp"])
def test_powersave_is_explained_where_the_cpu_chooses_the_frequency(
    driver: str,
) -> None:
    result = find_noise(replace(QUIET, governor="powersave", frequency_driver=driver))
    assert [finding.kind for finding in result] == ["governor", "driver"]
    assert driver in result[1].found


def test_without_a_steady_counter_the_clock_the_agent_falls_back_to_is_named() -> None:
    (result,) = find_noise(replace(QUIET, clock_source="kvm-clock", cpu_flags=("fpu",)))
    assert "falls back to the OS's clock (kvm-clock)" in result.found


def test_irqbalance_disturbs_more_where_no_cpu_is_isolated() -> None:
    result = find_noise(replace(QUIET, irqbalance=True, isolated_cpus=()))
    assert [(one.kind, one.severity) for one in result] == [
        ("irqbalance", WARNING),
        ("isolation", INFO),
    ]


def test_a_busy_second_names_the_programs() -> None:
    (result,) = find_noise(
        QUIET, Usage(busy_cpus=1.04, programs=(Program("python", 0.98, 1),))
    )
    assert result.kind == "busy"
    assert result.condition == Condition.QUIET
    assert (
        result.found
        == "The host is busy: programs take 1.0 of 2 CPUs (python 98 % on CPU 1)."
    )


def test_a_stolen_tick_is_found() -> None:
    (result,) = find_noise(QUIET, Usage(busy_cpus=0.0, steal_ticks=5))
    assert result.kind == "steal"
    assert result.severity == SERIOUS
    assert "5 clock ticks" in result.found


def test_the_most_serious_comes_first_and_is_what_a_run_notes() -> None:
    limited = {"user": "me", "processes_most": 9}
    busy = replace(
        QUIET, smt=True, governor="ondemand", load=Load(load_1m=9.0), **limited
    )
    assert [finding.kind for finding in find_noise(busy)] == [
        "processes",
        "load",
        "governor",
        "smt",
    ]
    assert describe_serious_findings(busy) == tuple(
        finding.found for finding in find_noise(busy)[:2]
    )


def test_a_condition_that_the_host_says_nothing_about_is_named() -> None:
    silent = Facts(os="linux", arch="x86_64", kernel="6.1")
    assert list_unknown(silent) == {
        Condition.PERFORMANCE,
        Condition.NO_BOOST,
        Condition.COOL,
    }
    known = replace(silent, governor="powersave", boost=False, core_throttles=0)
    assert list_unknown(known) == set()
