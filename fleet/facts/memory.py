"""Parses what a host's firmware and kernel report about its memory: modules, channels,
peak rate. Pure.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from fleet.model import Cpu, Dimm, Memory, Node, describe_channels

# SMBIOS, DSP0134 3.7: types 16 (physical memory array), 17 (memory device), 127 (end of
# table).
_ARRAY, _DEVICE, _END = 16, 17, 127
_SYSTEM_MEMORY = 3  # an array's use
_ECC = {3: "none", 4: "parity", 5: "single-bit", 6: "multi-bit", 7: "CRC"}
_KINDS = {
    **dict.fromkeys((0x13, 0x14), "DDR2"),
    **dict(zip((0x12, 0x18, 0x1A, 0x22), ("DDR", "DDR3", "DDR4", "DDR5"), strict=True)),
    **dict(
        zip(
            (0x1B, 0x1C, 0x1D, 0x1E, 0x23),
            map("LPDDR{}".format, ("", 2, 3, 4, 5)),
            strict=True,
        )
    ),
    **dict(zip((0x20, 0x21, 0x24), ("HBM", "HBM2", "HBM3"), strict=True)),
}
_PERSISTENT = 0x1F
# where a device has the numbers of its strings for serial number and asset tag
_PRIVATE = (
    0x18,
    0x19,
)
_EXTENDED = 0xFFFF
_HEX = re.compile(r"\s*((?:[0-9A-Fa-f]{2}\s*)+)")
_TABLE_BYTES = 1 << 18  # as much as the probe reads
# How firmware names places, slot before bank: "P1-DIMMA1 P0_Node0_Channel0_Dimm0".
_SOCKET = re.compile(
    r"(?:^|[^A-Z])(?:P|CPU|PROC|SOCKET|NODE)[ _-]?([0-9]{1,2})(?![0-9])"
)
_CONTROLLER = re.compile(r"(?:CONTROLLER|(?<![A-Z])MC)[ _-]?([0-9]{1,2})")
_CHANNELS = (
    # P0 CHANNEL A, CPU0 CH0/D0
    r"(?<![A-Z])CH(?:ANNEL|AN)?[ _-]?([A-Z]|[0-9]{1,2})(?![A-Z0-9])",
    r"DIMM[ _-]?P[0-9]+[ _-]?([A-Z])[0-9](?![0-9])",  # DIMM_P1_M0
    r"DIMM[ _-]?([A-O])[0-9](?![0-9])",  # DIMM_A1, P1-DIMMA1
    r"CPU[0-9]_DIMM_([A-Z])(?![A-Z0-9])",  # CPU0_DIMM_A
    # CPU0_A0, CPU0_C0D0, P1_A1
    r"(?:CPU|(?<![A-Z])P)[0-9]_(?:([A-Z])|C([0-9])D)[0-9](?![A-Z0-9_])",
)
_CHANNEL = re.compile("|".join(_CHANNELS))
# of 16 bits each: a module takes all four
_SUBCHANNELS = re.compile(r"CONTROLLER[0-9]-CHANNEL[CD]")
_EDAC = re.compile(
    r"sys/devices/system/edac/mc/(mc[0-9]{1,3})/(?:((?:dimm|rank)[0-9]{1,4})/)?(\w+)"
)
_EDAC_CHANNEL = re.compile(r"channel ([0-9]{1,3})\b")
_EDAC_ROW = re.compile(r"csrow ([0-9]{1,3})\b")
_LPDDR = re.compile(r"jedec,(lpddr[0-9]x?)-channel", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Structure:
    """A structure of an SMBIOS table: its formatted bytes, header included, and its
    strings.
    """

    kind: int
    body: bytes
    strings: tuple[bytes, ...]

    def number(self, offset: int, size: int) -> int | None:
        """Return the little-endian number of `size` bytes at `offset`; None beyond the
        structure.
        """
        part = self.body[offset : offset + size]
        return int.from_bytes(part, "little") if len(part) == size else None

    def text(self, offset: int) -> str:
        """Return the string whose number stands at `offset`; empty if there is none."""
        place = self.number(offset, 1) or 0
        text = self.strings[place - 1] if 0 < place <= len(self.strings) else b""
        return text[:60].decode("ascii", "replace").strip()


def parse_memory(
    sections: Mapping[str, list[str]],
    files: Mapping[str, str],
    cpus: Sequence[Cpu],
    nodes: Sequence[Node],
) -> tuple[Memory, tuple[Node, ...]]:
    """Return the machine's memory, and its NUMA nodes with their shares of channels and
    peak rate.
    """
    smbios = _read_smbios_memory(parse_smbios_table(sections.get("smbios", [])))
    # ABI/testing/sysfs-devices-edac
    dimms, edac = (
        smbios.dimms,
        _read_edac_memory(files),
    )
    packages = {cpu.package for cpu in cpus} - {None}
    if packages and len(_list_sockets(dimms)) > len(
        packages
    ):  # a processor is missing, and so its modules
        populated_sockets = _list_sockets(dimm for dimm in dimms if dimm.is_populated)
        dimms = tuple(dimm for dimm in dimms if dimm.socket in populated_sockets)
    # the first that tells; SMBIOS only to root
    dimms = dimms or edac.dimms or _read_device_tree(sections)
    populated, channels = _count_populated_and_all_channels(dimms) or (None, None)
    if edac.channels and (populated is None or dimms == edac.dimms):
        populated, channels = len({dimm.channel for dimm in edac.dimms}), edac.channels
    memory = Memory(
        dimms,
        channels,
        populated,
        smbios.ecc or edac.ecc,
        _compute_peak(dimms, populated),
    )
    return memory, tuple(
        _add_node_bandwidth(node, memory, files, cpus, nodes) for node in nodes
    )


def parse_smbios_table(lines: Collection[str]) -> bytes:
    """Decode an SMBIOS table from lines of hexadecimal bytes, or from what `dmidecode
    -u` prints.
    """
    if not any("DMI type" in line for line in lines):
        return _read_hex(lines)[:_TABLE_BYTES]
    table = b""
    for structure in "\n".join(lines).split("Handle ")[1:]:
        body, _, strings = structure.partition("Strings:")
        rows, is_text = list[str](), False  # behind each string's bytes stands its text
        for line in strings.splitlines()[1:]:
            if not is_text:
                rows.append(line)
            is_text = not is_text and line.rstrip().endswith("00")
        table += _read_hex(body.splitlines()[1:]) + (_read_hex(rows) or b"\0") + b"\0"
    return table[:_TABLE_BYTES]


def keep_memory_only(lines: Collection[str]) -> list[str]:
    """Strip an SMBIOS table of all but memory, and of serial numbers; return it as one
    hexadecimal line.
    """
    table = b""
    for structure in _iter_structures(parse_smbios_table(lines)):
        strings = list(structure.strings)
        if structure.kind == _DEVICE:
            for place in (structure.number(offset, 1) or 0 for offset in _PRIVATE):
                strings[place - 1 : place] = [b"-"] * (0 < place <= len(strings))
        if structure.kind in (_ARRAY, _DEVICE, _END):
            table += structure.body + (b"\0".join([*strings, b""]) or b"\0") + b"\0"
    return [table.hex()] if table else []


def describe_memory(memory: Memory) -> str | None:
    """Describe modules and channels: "2 x 16 GiB DDR4-3200 at 2933 MT/s, 1 of 2
    channels populated".
    """
    fields = attrgetter("size_bytes", "ranks", "kind", "rated_mts", "configured_mts")
    words, is_mixed = [], len({dimm.ranks for dimm in memory.populated}) > 1
    for (size, ranks, kind, rated, configured), count in Counter(
        map(fields, memory.populated)
    ).items():
        bits, unit = (
            (30, "GiB") if size is not None and size >= 1 << 30 else (20, "MiB")
        )
        text = f"x {size / (1 << bits):g} {unit}" if size is not None else "modules"
        named = "-".join(str(part) for part in (kind, rated) if part)
        speed = f"at {configured} MT/s" if configured and configured != rated else ""
        rank_word = f"{ranks}R" if ranks and is_mixed else ""
        words.append(
            " ".join(filter(None, (str(count), text, rank_word, named, speed)))
        )
    channels = describe_channels(memory.channels_populated, memory.channels)
    ecc = memory.ecc and f"ECC {memory.ecc}"
    return (
        ", ".join(filter(None, (" + ".join(words), channels, ecc))) if words else None
    )


def _read_hex(lines: Iterable[str]) -> bytes:
    return bytes.fromhex("".join(line for line in lines if _HEX.fullmatch(line)))


def _iter_structures(table: bytes) -> Iterator[_Structure]:
    """Yield the structures of an SMBIOS table, up to its end marker or to where it is
    damaged.
    """
    place = 0
    while len(table) - place >= 4:
        kind, length = table[place], table[place + 1]
        end = table.find(b"\0\0", place + length)
        if length < 4 or end < 0:
            return
        strings = table[place + length : end]
        yield _Structure(
            kind,
            table[place : place + length],
            tuple(strings.split(b"\0")) if strings else (),
        )
        place = end + 2
        if kind == _END:
            return


def _read_smbios_memory(table: bytes) -> Memory:
    """Return the slots in an SMBIOS table, without their channels; none if the table
    has no end.
    """
    structures = list(_iter_structures(table))
    if not structures or structures[-1].kind != _END:
        return Memory()
    arrays = {
        array.number(2, 2): _ECC.get(array.number(6, 1) or 0)
        for array in structures
        if array.kind == _ARRAY and array.number(5, 1) == _SYSTEM_MEMORY
    }
    devices = [
        device
        for device in structures
        if device.kind == _DEVICE
        and device.number(4, 2) in arrays
        and device.number(0x12, 1) != _PERSISTENT
    ]
    places = [f"{device.text(0x10)} {device.text(0x11)}".upper() for device in devices]
    matches = map(_SOCKET.search, places)
    sockets: list[int | None] = [int(match[1]) if match else None for match in matches]
    if None in sockets:  # then each array is a socket's, if there are several
        order = list(arrays)
        sockets = [
            order.index(device.number(4, 2)) if len(order) > 1 else None
            for device in devices
        ]
    dimms = [_read_dimm(*row) for row in zip(devices, places, sockets, strict=True)]
    populated = [dimm for dimm in dimms if dimm.is_populated]
    if any(dimm.channel is None for dimm in dimms):
        dimms = [replace(dimm, channel=None) for dimm in dimms]
    elif any(map(_SUBCHANNELS.search, places)) and any(
        dimm.width_bits == 64 for dimm in populated
    ):
        dimms = [
            replace(dimm, channel=(dimm.channel or "").rpartition(" ")[0])
            for dimm in dimms
        ]
    corrections = {*arrays.values()}
    ecc = corrections.pop() if len(corrections) == 1 else None
    return Memory(tuple(dimms) if populated else (), ecc=ecc)


def _read_dimm(device: _Structure, place: str, socket: int | None) -> Dimm:
    size = device.number(0x0C, 2)
    if size is not None and size == 0x7FFF:
        size = (device.number(0x1C, 4) or 0) & 0x7FFFFFFF or None
    elif size is not None:  # the highest bit: in KiB
        size = (
            None
            if size == _EXTENDED
            else size
            if size < 0x8000
            else (size & 0x7FFF) >> 10
        )
    channel, controller = _CHANNEL.search(place), _CONTROLLER.search(place)
    names = (
        f"P{socket}" if socket is not None else "",
        f"MC{controller[1]}" if controller else "",
    )
    width = device.number(0x0A, 2)
    return Dimm(
        slot=device.text(0x10) or None,
        channel=(
            " ".join(filter(None, (*names, *channel.groups()))) if channel else None
        ),
        socket=socket,
        size_bytes=None if size is None else size << 20,
        kind=_KINDS.get(device.number(0x12, 1) or 0),
        rated_mts=_read_speed(device, 0x15, 0x54),
        configured_mts=_read_speed(device, 0x20, 0x58),
        ranks=(device.number(0x1B, 1) or 0) & 15 or None,
        width_bits=width if width not in (0, _EXTENDED) else None,
    )


def _read_speed(device: _Structure, offset: int, extended: int) -> int | None:
    """Return a speed in MT/s; None if it is 0, as in an empty slot, or not given."""
    speed = device.number(offset, 2)
    return (
        (device.number(extended, 4) or 0) & 0x7FFFFFFF or None
        if speed == _EXTENDED
        else speed or None
    )


def _read_edac_memory(files: Mapping[str, str]) -> Memory:
    """Return the modules that EDAC lists, and the number of all channels."""
    devices = defaultdict[tuple[str, str], dict[str, str]](dict)
    for path, text in files.items():
        if match := _EDAC.fullmatch(path):
            devices[match[1], match[2] or ""][match[3]] = text
    modules, channels, corrections = defaultdict[str, list[Dimm]](list), 0, set()
    for (controller, name), texts in devices.items():
        location = texts.get("dimm_location", "") or texts.get("max_location", "")
        channel, row = _EDAC_CHANNEL.search(location), _EDAC_ROW.search(location)
        if not name:
            channels += int(channel[1]) + 1 if channel else 0
            continue
        kind, size = (
            re.search(r"(LP)?DDR[0-9]", texts.get("dimm_mem_type", "")),
            texts.get("size", ""),
        )
        module, ranks = name, None
        if (
            channel and row and name.startswith("rank")
        ):  # rows 0 and 1 are of one module
            module, ranks = f"channel {channel[1]} module {int(row[1]) // 2}", 1
        dimm = Dimm(
            slot=f"{controller} {module}",
            channel=f"{controller} {channel[1]}" if channel else None,
            size_bytes=int(size) << 20 if re.fullmatch(r"[0-9]{1,9}", size) else None,
            kind=kind[0] if kind else None,
            ranks=ranks,
        )
        modules[f"{controller} {module}"].append(dimm)
        corrections.add(texts.get("dimm_edac_mode", "").lower())
    correction = corrections.pop() if len(corrections) == 1 else None
    dimms = tuple(map(_join_ranks, modules.values()))
    if correction in ("", "unknown", "reserved"):
        correction = None
    known_channels = (
        channels if channels and all(dimm.channel for dimm in dimms) else None
    )
    return Memory(dimms, known_channels, ecc=correction)


def _join_ranks(ranks: Sequence[Dimm]) -> Dimm:
    """Join a module's ranks into one Dimm, adding their sizes. A module not split stays
    as it is.
    """
    sizes = [rank.size_bytes for rank in ranks if rank.size_bytes is not None]
    size = sum(sizes) if len(sizes) == len(ranks) else None
    return replace(
        ranks[0], size_bytes=size, ranks=len(ranks) if ranks[0].ranks else None
    )


def _read_device_tree(sections: Mapping[str, list[str]]) -> tuple[Dimm, ...]:
    """Return one Dimm for each LPDDR channel, from lines `lpddr RANKS COMPATIBLE` of
    section `system`.
    """
    rows = [
        line.split(None, 2)
        for line in sections.get("system", [])
        if line.startswith("lpddr ")
    ]
    channels = [
        (row[1], kind[1].upper())
        for row in rows
        if len(row) > 2 and (kind := _LPDDR.search(row[2]))
    ]
    return tuple(
        Dimm(
            slot=None,
            channel=str(place),
            kind=kind,
            ranks=int(ranks) if ranks in "1234" else None,
        )
        for place, (ranks, kind) in enumerate(channels)
    )


def _count_populated_and_all_channels(
    dimms: Collection[Dimm],
) -> tuple[int, int] | None:
    """Return the number of populated channels and of all channels; None if a module's
    channel is unknown.
    """
    if not dimms or any(dimm.channel is None for dimm in dimms):
        return None
    return len({dimm.channel for dimm in dimms if dimm.is_populated}), len(
        {dimm.channel for dimm in dimms}
    )


def _compute_peak(dimms: Collection[Dimm], populated: int | None) -> int | None:
    """Return the peak of all populated channels in MB/s, width times configured speed;
    None if unknown.
    """
    channels: dict[str | None, list[int]] = {}
    for dimm in dimms:
        if dimm.is_populated:
            if not dimm.width_bits or not dimm.configured_mts:
                return None
            channels.setdefault(dimm.channel, []).append(
                dimm.width_bits // 8 * dimm.configured_mts
            )
    rates = [min(rates) for rates in channels.values()]
    if None in channels:  # then all must be alike
        rates = [rates[0]] * (populated or 0) if len({*channels[None]}) == 1 else []
    return sum(rates) or None


def _add_node_bandwidth(
    node: Node,
    memory: Memory,
    files: Mapping[str, str],
    cpus: Sequence[Cpu],
    nodes: Sequence[Node],
) -> Node:
    """Add a node's HMAT rates, channels and peak. Nodes of a package share its channels
    and peak equally.
    """
    folder = (  # ACPI's HMAT: numaperf.rst
        f"sys/devices/system/node/node{node.node}/access0/initiators"
    )
    rates = [files.get(f"{folder}/{name}_bandwidth", "") for name in ("read", "write")]
    read, write = (
        int(rate) or None if re.fullmatch(r"[0-9]{1,9}", rate) else None
        for rate in rates
    )
    share = (
        memory if len(nodes) == 1 else _compute_node_share(node, memory, cpus, nodes)
    )
    node = replace(
        node, channels=share.channels, channels_populated=share.channels_populated
    )
    return replace(node, peak_mbps=share.peak_mbps, read_mbps=read, write_mbps=write)


def _compute_node_share(
    node: Node, memory: Memory, cpus: Sequence[Cpu], nodes: Sequence[Node]
) -> Memory:
    """Return a node's channels and their peak rate, without modules; an empty Memory if
    unknown.
    """
    packages = defaultdict[int | None, set[int]](set)
    for cpu in cpus:
        if cpu.package is not None:
            packages[cpu.node].add(cpu.package)
    own, every_package = packages[node.node], sorted(set().union(*packages.values()))
    dimms, sockets = memory.dimms, _list_sockets(memory.dimms)
    if len(own) != 1 or (len(every_package) > 1 and len(sockets) != len(every_package)):
        return Memory()
    if len(every_package) > 1:
        socket = sockets[every_package.index(min(own))]
        dimms = tuple(dimm for dimm in dimms if dimm.socket == socket)
    sharing = sum(packages[other.node] == own for other in nodes)
    counts = _count_populated_and_all_channels(dimms)
    if counts is None or any(count % sharing for count in counts):
        return Memory()
    populated, channels = (count // sharing for count in counts)
    peak = _compute_peak(dimms, counts[0])
    return Memory((), channels, populated, peak_mbps=peak // sharing if peak else None)


def _list_sockets(dimms: Iterable[Dimm]) -> list[int]:
    return sorted({dimm.socket for dimm in dimms if dimm.socket is not None})
