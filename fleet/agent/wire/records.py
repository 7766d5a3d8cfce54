"""Decodes one line of what the agent says (docs/wire.md). Pure; `wire` follows the whole conversation.

Everything a host may send ends in a record that the tables can take, or in a WireError.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet.model import Burst, End, Estimator, Failed, Hello, Note
from fleet.plan.cpulist import MAX_CPU

PROTOCOL = 1
TEXT_LIMIT = 1000  # characters of a note or reason that are kept
CPU_LIMIT = 4096
KIND_LIMIT = 32  # benchmarks and variants of one plan
DEPTH_LIMIT = 8  # of what is nested in a hello
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class WireError(ValueError):
    """A line the wire does not allow; the message says what is wrong with it, not which host sent it."""


@dataclass(frozen=True, slots=True)
class Alive:
    """The agent is working and has nothing to report."""


Record = Hello | Burst | Failed | Note | Alive | End


def decode(line: bytes) -> Record:
    """Decode one line of the conversation. Raises WireError on anything but a well-formed record.

    Checks each record by itself: keys, types, ranges. What depends on other records is `Reader`'s.
    """
    fields = _object(line)
    match fields.get("record"):
        case "hello":
            return _hello(fields)
        case "burst":
            return _burst(fields)
        case "failed":
            return Failed(*_key(fields), reason=_kept_text(fields, "reason"))
        case "note":
            return Note(_kept_text(fields, "text"))
        case "alive":
            return Alive()
        case "end":
            return _end(fields)
        case other:
            raise WireError(f"unknown record {short(other)}")


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(line.decode())
        if b"\\u" in line:
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair could be stored nowhere
    except (ValueError, RecursionError) as err:
        raise WireError(f"not a JSON record: {short(line)}") from err
    if not isinstance(value, dict):
        raise WireError(f"not a JSON object: {short(line)}")
    return value


def _hello(fields: Mapping[str, Any]) -> Hello:
    if fields.get("protocol") != PROTOCOL:
        raise WireError(f"wire protocol {short(fields.get('protocol'))}; this fleet speaks {PROTOCOL}")
    planned(fields)
    plan = fields["plan"]
    precision_ppm = _count_or_none(plan, "precision_ppm")
    budget_ms = _count_or_none(plan, "time_budget_ms")
    bursts = _count(fields, "bursts")
    hello = Hello(
        build=_text(fields, "build"),
        os=_text(fields, "os"),
        arch=_text(fields, "arch"),
        clock=_text(fields, "clock"),
        ticks_per_second=_count(fields, "ticks_per_second"),
        pairs=_count(fields, "pairs"),
        bursts=bursts,
        cpus=_counts(fields, "cpus"),
        raw=fields,
        bursts_max=_count(fields, "bursts_max") if "bursts_max" in fields else bursts,
        precision=precision_ppm / 1e6 if precision_ppm is not None else None,
        time_budget_s=budget_ms / 1e3 if budget_ms is not None else None,
        spread_s=(_count_or_none(plan, "spread_ms") or 0) / 1e3,
        preset=_text_or_none(plan, "preset"),
        estimator=_estimator(plan),
    )
    _check(hello, fields)
    return hello


def _check(hello: Hello, fields: Mapping[str, Any]) -> None:
    """Refuse a hello that contradicts itself, or that no table could take."""
    if hello.ticks_per_second == 0:
        raise WireError("hello: ticks_per_second is 0")
    if fields.get("bursts_max") is not None and fields["bursts_max"] < hello.bursts:
        raise WireError(f"hello: bursts_max {fields['bursts_max']} is less than bursts {hello.bursts}")
    if len(set(hello.cpus)) < len(hello.cpus) or len(hello.cpus) > CPU_LIMIT:
        raise WireError(f"hello: {len(hello.cpus)} CPUs; at most {CPU_LIMIT} and each once are allowed")
    if any(cpu > MAX_CPU for cpu in hello.cpus):
        raise WireError(f"hello: CPU {max(hello.cpus)}; numbers end at {MAX_CPU}")
    for key in ("clock_cost_ticks", "clock_quantum_ticks", "done", "monotonic_ns"):
        _count_or_none(fields, key)
    for key in ("compiler", "cflags"):
        _text_or_none(fields, key)
    if _depth(fields) > DEPTH_LIMIT:
        raise WireError(f"hello: more than {DEPTH_LIMIT} levels of objects and lists")


def _depth(value: object) -> int:
    """How deep lists and objects are nested, without recursion and looking no deeper than needed."""
    depth, level = 0, [value]
    while level and depth <= DEPTH_LIMIT:
        inner: list[object] = []
        for item in level:
            inner.extend(item.values() if isinstance(item, dict) else item if isinstance(item, list) else ())
        depth, level = depth + 1, inner
    return depth


def planned(fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """List the (benchmark, variant) of a hello's plan."""
    plan = fields.get("plan")
    listed = plan.get("benchmarks") if isinstance(plan, dict) else None
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise WireError("hello: plan.benchmarks must be a list of objects")
    if len(listed) > KIND_LIMIT:
        raise WireError(f"hello: {len(listed)} benchmarks and variants; at most {KIND_LIMIT} are allowed")
    return [(_text(entry, "benchmark"), _text(entry, "variant")) for entry in listed]


def _estimator(plan: Mapping[str, Any]) -> Estimator:
    name = _text_or_none(plan, "estimator")
    try:
        return Estimator(name or Estimator.MEDIAN)
    except ValueError as err:
        raise WireError(f"hello: unknown estimator {short(name)}") from err


def _end(fields: Mapping[str, Any]) -> End:
    return End(
        _count(fields, "bursts"),
        _count(fields, "failed"),
        _kept_text(fields, "reason"),
        _count_or_none(fields, "converged"),
        _count_or_none(fields, "unconverged"),
    )


def _burst(fields: Mapping[str, Any]) -> Burst:
    benchmark, variant, round_, ping, pong = _key(fields)
    burst = Burst(
        benchmark=benchmark,
        variant=variant,
        round=round_,
        ping_cpu=ping,
        pong_cpu=pong,
        iterations=_count(fields, "iterations"),
        warmup=_count(fields, "warmup", INT32_MAX),
        ticks=_counts(fields, "ticks"),
        start_offset_ns=_count(fields, "start_ns"),
        ping_cpus=_two(fields, "ping_cpus"),
        pong_cpus=_two(fields, "pong_cpus"),
        switches=None if fields.get("switches") is None else _four(fields, "switches"),
        line_page=_count_or_none(fields, "line_page"),
        line_offset=_count_or_none(fields, "line_offset", INT32_MAX),
        line_node=_count_or_none(fields, "line_node", INT32_MAX),
        line_physical=_count_or_none(fields, "line_physical"),
        ran_ppm=None if fields.get("ran_ppm") is None else _two(fields, "ran_ppm"),
    )
    if burst.iterations == 0:
        raise WireError("burst: iterations is 0")
    if len(burst.ticks) <= burst.warmup:
        raise WireError(f"burst: {len(burst.ticks)} samples of which {burst.warmup} are warm-ups leave none")
    if burst.ping_cpus != (ping, ping) or burst.pong_cpus != (pong, pong):
        raise WireError(
            f"burst: asked for CPUs {ping},{pong} but ran on {burst.ping_cpus} and {burst.pong_cpus}"
        )
    return burst


def _key(fields: Mapping[str, Any]) -> tuple[str, str, int, int, int]:
    return (
        _text(fields, "benchmark"),
        _text(fields, "variant"),
        _count(fields, "round", INT32_MAX),
        _count(fields, "ping"),
        _count(fields, "pong"),
    )


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str):
        raise WireError(f"{key}: text expected, got {short(value)}")
    return value


def _text_or_none(fields: Mapping[str, Any], key: str) -> str | None:
    return None if fields.get(key) is None else _text(fields, key)


def _kept_text(fields: Mapping[str, Any], key: str) -> str:
    """Read a text that is kept, at most TEXT_LIMIT characters of it."""
    value = _text(fields, key)
    return value if len(value) <= TEXT_LIMIT else value[: TEXT_LIMIT - 3] + "..."


def _count(fields: Mapping[str, Any], key: str, most: int = INT64_MAX) -> int:
    value = fields.get(key)
    if type(value) is not int or not 0 <= value <= most:
        raise WireError(f"{key}: a number from 0 to 2^{most.bit_length()}-1 expected, got {short(value)}")
    return value


def _count_or_none(fields: Mapping[str, Any], key: str, most: int = INT64_MAX) -> int | None:
    return None if fields.get(key) is None else _count(fields, key, most)


def _counts(fields: Mapping[str, Any], key: str) -> tuple[int, ...]:
    value = fields.get(key)
    if not isinstance(value, list) or not all(map(_is_count, value)):
        raise WireError(f"{key}: a list of numbers from 0 to 2^63-1 expected, got {short(value)}")
    return tuple(value)


def _two(fields: Mapping[str, Any], key: str) -> tuple[int, int]:
    match _counts(fields, key):
        case (one, other):
            return one, other
        case value:
            raise WireError(f"{key}: two numbers expected, got {len(value)}")


def _four(fields: Mapping[str, Any], key: str) -> tuple[int, int, int, int]:
    match _counts(fields, key):
        case (a, b, c, d):
            return a, b, c, d
        case value:
            raise WireError(f"{key}: four numbers expected, got {len(value)}")


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= INT64_MAX


def short(value: object) -> str:
    """Show a piece of what a host sent, safe to print: escaped, at most 120 characters."""
    if isinstance(value, bytes):
        shown = ascii(value[:200].decode("utf-8", "replace"))
    elif isinstance(value, str):
        shown = ascii(value[:200])
    else:
        shown = ascii(_in_words(value))
    return shown if len(shown) <= 120 else shown[:117] + "..."


def _in_words(value: object) -> str:
    """Name a value of JSON that is neither text nor bytes; large ones only by their kind."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, list | dict):
        return f"a list of {len(value)}" if isinstance(value, list) else f"an object of {len(value)}"
    return str(value)
