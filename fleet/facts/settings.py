"""Parses what limits and disturbs a host: idle states, throttling, quotas, irqbalance. Pure; for `linux`."""

import re
from collections.abc import Collection, Iterable, Mapping

_COUNT = re.compile(r"[0-9]{1,18}")
_NO_LIMIT = 1 << 60  # bytes; version 1 of control groups writes a number near 2^63
_WHOLE_OF_AMD, _WHOLE = {"2048", "4096", "8192"}, {"100", "4294967295"}  # per cent, and MB/s where so mounted
_IDLE = re.compile(r"^sys/.*/cpuidle/state([0-9]+)/([a-z]+):")
_IRQBALANCE = re.compile(r"proc/[0-9]+/comm:irqbalance")


def parse_idle_state(lines: Iterable[str]) -> tuple[str | None, int | None]:
    """Return name and exit latency in µs of the deepest idle state that some CPU may enter; None if unknown.

    lines: `.../cpuidle/stateNUMBER/PART:VALUE`, formerly `idle NUMBER PART VALUE`, each value once for all
    CPUs; where their kinds of core differ, the longest latency counts. Format: Linux
    Documentation/admin-guide/pm/cpuidle.rst (name, latency, disable).
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
    """Return the CPUs that the tightest control group allows, and its name and limit; None without a limit.

    lines: `quota MICROSECONDS PERIOD GROUP`; the first is "max" or -1 without a limit. Format: Linux
    Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst (cpu.cfs_quota_us).
    """
    quotas = []
    for line in lines:
        match line.split(None, 3):
            case ["quota", quota, period, *group] if _COUNT.fullmatch(quota) and _COUNT.fullmatch(period):
                quotas += [(int(quota) / int(period), "".join(group)[:80])] if int(period) else []
    cpus, name = min(quotas, key=lambda cpus_and_group: cpus_and_group[0], default=(0.0, ""))
    return (cpus, f"control group {name}, {cpus:g} CPUs") if cpus else None


def parse_memory_limit(lines: Iterable[str]) -> tuple[int, str] | None:
    """Return the bytes that the tightest control group leaves, and its name and limit; None without a limit.

    lines: `memory LIMIT,... USED RECLAIMABLE GROUP` of our group and each above it. Format: Linux
    Documentation/admin-guide/cgroup-v2.rst (memory.max, memory.high) and cgroup-v1/memory.rst
    (memory.limit_in_bytes).
    """
    limits_left = []
    for line in lines:
        match line.split(None, 4):
            case ["memory", limits, used, reclaimable, group] if _COUNT.fullmatch(used) and _COUNT.fullmatch(
                reclaimable
            ):
                in_use = max(0, int(used) - int(reclaimable))
                numbers = (int(limit) for limit in limits.split(",") if _COUNT.fullmatch(limit))
                limits_left += [
                    (max(0, limit - in_use), limit, group[:80]) for limit in numbers if limit < _NO_LIMIT
                ]
    bytes_left, limit, group = min(limits_left, key=lambda limit_left: limit_left[0], default=(0, 0, ""))
    return (bytes_left, f"control group {group}, {limit / (1 << 20):.0f} MiB") if limits_left else None


def parse_resctrl(files: Mapping[str, str], vendor: str | None) -> str | None:
    """Return our group's limit of memory bandwidth, such as "MB:0=50", else "no limit" or "not mounted".

    files: from `parse_files`. Format: Linux Documentation/filesystems/resctrl.rst (MB and SMBA of schemata).
    """
    group = files.get("proc/self/cpu_resctrl_groups")
    if group is None or group == "res:":
        return group and "not mounted"
    lines = {path: text for path, text in files.items() if path.startswith("sys/fs/resctrl/")}
    unlimited, limited = _WHOLE_OF_AMD if vendor in ("AuthenticAMD", "HygonGenuine") else _WHOLE, []
    for path, text in lines.items():
        name, parts = path.rpartition(":")[2], re.findall(r"([0-9]+)= *([0-9]+)", text)
        limits = [f"{domain}={limit}" for domain, limit in parts if limit not in unlimited]
        if limits and name in ("MB", "SMBA"):
            limited.append(f"{name}:{';'.join(limits)}")
    return " ".join(limited) or ("no limit" if lines else None)


def parse_processes(lines: Iterable[str], own: int | None) -> int | None:
    """Return how many processes and threads we may have; None without a limit.

    lines: `pids LIMIT` of our control groups. own: the account's limit.
    """
    words = (line.partition(" ") for line in lines)
    groups = [int(limit) for kind, _, limit in words if kind == "pids" and _COUNT.fullmatch(limit)]
    return min(groups if own is None else [*groups, own], default=None)


def parse_throttles(lines: Iterable[str], part: str) -> int | None:
    """Return how often heat slowed CPUs down since boot; None if unknown. part: "core" or "package".

    lines: `throttled CPUS PART COUNT`, so many CPUs with that count; one line for all of them where the host
    has added up. The counters of all CPUs are summed, as siblings count an event of their core each. Source:
    Linux drivers/thermal/intel/therm_throt.c.
    """
    counts = []
    for line in lines:
        match line.split():
            case ["throttled", cpus, named, count] if named == part:
                is_valid = _COUNT.fullmatch(cpus) and _COUNT.fullmatch(count)
                counts += [int(cpus) * int(count)] if is_valid else []
    return min(sum(counts), 2**63 - 1) if counts else None


def parse_irqbalance(lines: Collection[str], container: str | None) -> bool | None:
    """Report whether irqbalance runs; None if that cannot be known.

    lines: processes' names or, in older answers, `irqbalance 1`.
    """
    if any(line == "irqbalance 1" or _IRQBALANCE.fullmatch(line) for line in lines):
        return True
    return False if "irqbalance 0" in lines and container is None else None
