"""Parses what `uname -a` and `pidin info` print on a QNX host, as model.Facts. Pure."""

import re
from collections.abc import Iterator, Sequence

from fleet.errors import DataError
from fleet.facts.findings import make_finding
from fleet.facts.linux import parse_compilers
from fleet.facts.probe import Sections
from fleet.facts.topology import arm_core_name
from fleet.model import Cpu, Facts, Finding, Usage

STANDIN = "qnx-standin"  # the `os` of an imitation that the tests make out of Linux

_ARCHES = {"x86_64": "x86_64", "aarch64": "aarch64", "aarch64le": "aarch64"}
_NO_CPUS = (
    "no `pidin info` on the host: how many CPUs it has is not known before the agent"
    " runs"
)
_UNITS = {"": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_UNAME = re.compile(
    r"QNX (?P<hostname>\S+) (?P<release>\S+) (?P<build>.+) (?P<board>\S+) (?P<arch>\S+)"
)
_PROCESSOR = re.compile(
    r"\s*Processor(\d{1,9}):\s+(\d{1,18})\s+(.*?)\s+(\d{1,9})MHz\b\s*(.*)"
)


def is_answer(sections: Sections) -> bool:
    """Report whether a QNX host gave the answer."""
    return "qnx" in sections


def find_noise(facts: Facts, _: Usage | None = None) -> Iterator[Finding]:
    """Yield a finding if the host is a stand-in, then one that QNX does not show the
    usual settings.
    """
    if facts.os == STANDIN:
        yield make_finding("stand-in", facts)
    yield make_finding("untold", facts)


def parse(sections: Sections, declared_arch: str | None = None) -> Facts:
    """Return the facts of a QNX host, without the workdir. Raises DataError for an
    unusable answer.
    """
    system, pidin = parse_values(sections), sections.get("pidin", [])
    text = "\n".join(pidin)
    lines = uname_line, _ = system.get("uname", ""), next(iter(pidin), "")
    match = _UNAME.fullmatch(" ".join(uname_line.split()))
    if match is None and uname_line.split():
        raise DataError(
            f"`uname -a` says {uname_line[:200]!r}, which is not the format of QNX"
        )
    uname = match.groupdict() if match else {}
    cpu, version = (
        re.search(rf"\b{name}:\s*(\S+)", text) for name in ("CPU", "Release")
    )
    memory = re.search(r"\bFreeMem:\S*?/(\d{1,12})([KMG]B|)", text, re.IGNORECASE)
    by_uname, by_pidin = map(
        _require_known_arch, (uname.get("arch"), cpu and cpu[1]), lines
    )
    arch = (
        _require_agreement("architecture", by_uname, by_pidin, *lines) or declared_arch
    )
    if arch is None:
        raise DataError(
            "neither `uname -a` nor `pidin info` names an architecture: name it as"
            " `arch:`"
        )
    releases = uname.get("release"), version and version[1]
    processors = [match.groups() for match in map(_PROCESSOR.match, pidin) if match]
    cpus = []
    for number, midr, name, mhz, _ in processors:
        core = arm_core_name(*_read_midr(midr)[:2]) if arch == "aarch64" else None
        cpus.append(
            Cpu(
                cpu=int(number) - 1, model=name or core, max_khz=int(mhz) * 1000 or None
            )
        )
    identity = (
        _read_midr(processors[0][1])
        if processors and arch == "aarch64"
        else (None, None, None)
    )
    return Facts(
        os=STANDIN if "standin" in system else "qnx",
        arch=arch,
        hostname=uname.get("hostname"),
        kernel=_require_agreement("release", *releases, *lines),
        kernel_version=uname.get("build"),
        board=uname.get("board"),
        cpu_model=" + ".join(dict.fromkeys(cpu.model for cpu in cpus if cpu.model))
        or None,
        cpu_vendor=identity[0],
        cpu_model_number=identity[1],
        cpu_stepping=identity[2],
        cpu_flags=tuple(processors[0][-1].split()) if processors else (),
        memory_bytes=int(memory[1]) * _UNITS[memory[2].upper()] if memory else None,
        cpus=tuple(cpus),
        user=system.get("user") or None,
        compilers=parse_compilers(sections.get("compilers", [])),
        notes=() if cpus else (_NO_CPUS,),
    )


def _read_midr(register: str) -> tuple[str, str, str]:
    """Return implementer, part and revision of a decimal MIDR_EL1 as Linux
    writes them.
    """
    midr = int(register)
    return (
        f"0x{midr >> 24:02x}",
        f"0x{midr >> 4 & 0xFFF:03x}",
        f"r{midr >> 20 & 0xF}p{midr & 0xF}",
    )


def parse_values(sections: Sections) -> dict[str, str]:
    """Return the values in section `qnx` by name, without the `tool` lines."""
    lines = (line.partition(" ") for line in sections.get("qnx", []))
    return {name: value for name, _, value in lines if name != "tool"}


def describe_answer(sections: Sections) -> tuple[str, ...]:
    """Return the whole answer in lines, for whoever has to find out why it was
    misread.
    """
    system = parse_values(sections)
    tools = [
        line.split(" ", 2)
        for line in sections.get("qnx", [])
        if line.startswith("tool ")
    ]
    paths = {name: "" if path == "-" else path for _, name, path in tools}
    return (
        f"uname -a      {system.get('uname') or 'not there'}",
        *_align_column("pidin info", sections.get("pidin", [])),
        f"PATH          {system.get('path_given', '')}",
        f"  by profile  {system.get('path_profile') or '(no /etc/profile)'}",
        f"  as used     {system.get('path', '')}",
        f"HOME, user    {system.get('home') or '(none)'}, {system.get('user', '')}",
        f"programs      {', '.join(path for path in paths.values() if path) or 'none'}",
        (
            "not there    "
            f" {', '.join(name for name, path in paths.items() if not path) or 'none'}"
        ),
        *_align_column(
            "compilers",
            [line.replace("\t", ": ") for line in sections.get("compilers", [])],
        ),
        *_align_column("directories", sections.get("workdir", [])),
        (
            "shell        "
            f" {next(iter(_find_report_values(sections, 'shell')), 'unknown')}"
        ),
        *_align_column("ls -ld", _find_report_values(sections, "place")),
        *_align_column("pidin rmasks", sections.get("rmasks", [])),
        *_align_column("pidin qtime", sections.get("qtime", [])),
    )


def _find_report_values(sections: Sections, name: str) -> list[str]:
    lines = (line.partition(" ") for line in sections.get("report", []))
    return [value for key, _, value in lines if key == name]


def _align_column(title: str, lines: Sequence[str]) -> list[str]:
    titles = [title, *[""] * len(lines)]
    return [
        f"{head:<13} {line}"
        for head, line in zip(titles, lines or ["none"], strict=False)
    ]


def _require_known_arch(word: str | None, line: str) -> str | None:
    arch = _ARCHES.get((word or "").lower())
    if word and arch is None:
        raise DataError(
            f"{line[:200]!r} names {word[:40]!r}, an architecture fleet has no QNX"
            " agent for"
        )
    return arch


def _require_agreement(
    name: str, by_uname: str | None, by_pidin: str | None, *lines: str
) -> str | None:
    if by_uname is not None and by_pidin is not None and by_uname != by_pidin:
        raise DataError(
            f"its {name} is {by_uname[:200]} by `uname -a` ({lines[0][:200]!r}), "
            f"but {by_pidin[:200]} by `pidin info` ({lines[1][:200]!r})"
        )
    return by_uname or by_pidin
