"""What limits and disturbs a host: idle states, throttling, quotas, irqbalance. Pure; used by `linux`."""

import re
from collections.abc import Collection, Iterable, Mapping

_COUNT = re.compile(r"[0-9]{1,18}")
_NO_LIMIT = 1 << 60  # bytes; version 1 of control groups writes a number near 2^63
_WHOLE_OF_AMD, _WHOLE = {"2048", "4096", "8192"}, {"100", "4294967295"}  # per cent, and MB/s where so mounted
_IDLE = re.compile(r"^sys/.*/cpuidle/state([0-9]+)/([a-z]+):")
_IRQBALANCE = re.compile(r"proc/[0-9]+/comm:irqbalance")


def parse_idle_state(lines: Iterable[str]) -> tuple[str | None, int | None]:
    """Name and exit latency in µs of the deepest idle state that some CPU may enter; (None, None) if unknown.

    lines: `.../cpuidle/stateNUMBER/PART:VALUE`, formerly `idle NUMBER PART VALUE`, each value once for all
    CPUs; where their kinds of core differ, the longest latency counts.
    Format: Linux Documentation/admin-guide/pm/cpuidle.rst (name, latency, disable).
    """
    states: dict[int, dict[str, set[str]]] = {}
    for line in lines:
        match _IDLE.sub(r"idle \1 \2 ", line).split(maxsplit=3):
            case ["idle", number, part, value] if _COUNT.fullmatch(number):
                states.setdefault(int(number), {}).setdefault(part, set()).add(value)
    enabled = [state for _, state in sorted(states.items()) if "0" in state.get("disable", {"0"})]
    if not enabled:
        return None, None
    latencies = [int(value) for value in enabled[-1].get("latency", ()) if _COUNT.fullmatch(value)]
    return " or ".join(sorted(enabled[-1].get("name", ()))) or None, max(latencies, default=None)


def parse_cpu_quota(lines: Iterable[str]) -> tuple[float, str] | None:
    """How many CPUs' time the tightest control group leaves us, and its name and limit; None: no limit.

    lines: `quota MICROSECONDS PERIOD GROUP`; the first is "max" or -1 without a limit. Format: Linux
    Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst (cpu.cfs_quota_us).
    """
    found = []
    for line in lines:
        match line.split(None, 3):
            case ["quota", quota, period, *group] if _COUNT.fullmatch(quota) and _COUNT.fullmatch(period):
                found += [(int(quota) / int(period), "".join(group)[:80])] if int(period) else []
    cpus, name = min(found, key=lambda one: one[0], default=(0.0, ""))
    return (cpus, f"control group {name}, {cpus:g} CPUs") if cpus else None


def parse_memory_limit(lines: Iterable[str]) -> tuple[int, str] | None:
    """The bytes that the tightest control group leaves us, and its name and limit; None: no limit.

    lines: `memory LIMIT,... USED BACK GROUP` of our group and each above it, where BACK is what the kernel
    takes back of USED. Format: Linux Documentation/admin-guide/cgroup-v2.rst (memory.max, memory.high) and
    cgroup-v1/memory.rst (memory.limit_in_bytes).
    """
    found = []
    for line in lines:
        match line.split(None, 4):
            case ["memory", limits, used, back, group] if _COUNT.fullmatch(used) and _COUNT.fullmatch(back):
                kept = max(0, int(used) - int(back))
                whole = (int(limit) for limit in limits.split(",") if _COUNT.fullmatch(limit))
                found += [(max(0, limit - kept), limit, group[:80]) for limit in whole if limit < _NO_LIMIT]
    left, limit, group = min(found, key=lambda one: one[0], default=(0, 0, ""))
    return (left, f"control group {group}, {limit / (1 << 20):.0f} MiB") if found else None


def parse_resctrl(files: Mapping[str, str], vendor: str | None) -> str | None:
    """How the memory bandwidth of our group is limited, such as "MB:0=50", else "no limit" or "not mounted".

    files: as of `parse_files`. Format: Linux Documentation/filesystems/resctrl.rst (MB and SMBA of schemata).
    """
    group = files.get("proc/self/cpu_resctrl_groups")
    if group is None or group == "res:":
        return group and "not mounted"
    lines = {path: text for path, text in files.items() if path.startswith("sys/fs/resctrl/")}
    whole, found = _WHOLE_OF_AMD if vendor in ("AuthenticAMD", "HygonGenuine") else _WHOLE, []
    for path, text in lines.items():
        name, parts = path.rpartition(":")[2], re.findall(r"([0-9]+)= *([0-9]+)", text)
        limits = [f"{domain}={most}" for domain, most in parts if most not in whole]
        if limits and name in ("MB", "SMBA"):
            found.append(f"{name}:{';'.join(limits)}")
    return " ".join(found) or ("no limit" if lines else None)


def parse_processes(lines: Iterable[str], own: int | None) -> int | None:
    """How many processes and threads we may have: lines `pids MOST` of our groups, and our own limit."""
    words = (line.partition(" ") for line in lines)
    groups = [int(most) for kind, _, most in words if kind == "pids" and _COUNT.fullmatch(most)]
    return min(groups if own is None else [*groups, own], default=None)


def parse_throttles(lines: Iterable[str], part: str) -> int | None:
    """How often CPUs were slowed down because of heat since boot: "core" or "package" as `part`.

    lines: `throttled CPUS PART COUNT`, so many CPUs with that count; one line for all of them where the host
    has added up. The counters of all CPUs count, as siblings count an event of their core each.
    Source: Linux drivers/thermal/intel/therm_throt.c.
    """
    found = []
    for line in lines:
        match line.split():
            case ["throttled", cpus, named, count] if named == part:
                whole = _COUNT.fullmatch(cpus) and _COUNT.fullmatch(count)
                found += [int(cpus) * int(count)] if whole else []
    return min(sum(found), 2**63 - 1) if found else None


def parse_irqbalance(lines: Collection[str], container: str | None) -> bool | None:
    """Whether irqbalance runs: a process's name, or of old `irqbalance 1`; None if we cannot know."""
    if any(line == "irqbalance 1" or _IRQBALANCE.fullmatch(line) for line in lines):
        return True
    return False if "irqbalance 0" in lines and container is None else None
