"""Parses what a host's firmware and kernel report about its memory: modules, channels,
peak rate. Pure.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from fleet.model import Cpu, Dimm, Memory, Node, describe_channels

# SMBIOS, DSP0134 3.7: types of structures. A memory array is a group of slots, such as
# those of the mainboard; a memory device is a slot, with its module if it has one.
_ARRAY = 16
_DEVICE = 17
_END = 127
# Where a structure has its fields: the offset and the size, in bytes.
_HANDLE = (0x02, 2)  # of any structure: its number in the table
_ARRAY_USE = (0x05, 1)
_ARRAY_CORRECTION = (0x06, 1)
_DEVICE_ARRAY = (0x04, 2)  # the handle of its array
_DEVICE_ALL_BITS = (0x08, 2)  # with those of error correction
_DEVICE_DATA_BITS = (0x0A, 2)
_DEVICE_SIZE = (0x0C, 2)
_DEVICE_KIND = (0x12, 1)
_DEVICE_RANKS = (0x1B, 1)
# the offsets of a speed, and of a larger field for a speed too large for that
_DEVICE_RATED_SPEED = (0x15, 0x54)  # that the module is made for
_DEVICE_CONFIGURED_SPEED = (0x20, 0x58)  # that it runs at
# the offset of a size in MiB that is too large for _DEVICE_SIZE
_DEVICE_EXTENDED_SIZE = 0x1C
# the offsets of the numbers of strings: the names of the slot and of its bank
_DEVICE_SLOT = 0x10
_DEVICE_BANK = 0x11
_SYSTEM_MEMORY = 3  # an array's use
_ECC = {3: "none", 4: "parity", 5: "single-bit", 6: "multi-bit", 7: "CRC"}
_NEEDS_WIDER_MODULES = ("single-bit", "multi-bit")
_KINDS = {
    0x12: "DDR",
    0x13: "DDR2",
    0x14: "DDR2",
    0x18: "DDR3",
    0x1A: "DDR4",
    0x1B: "LPDDR",
    0x1C: "LPDDR2",
    0x1D: "LPDDR3",
    0x1E: "LPDDR4",
    0x20: "HBM",
    0x21: "HBM2",
    0x22: "DDR5",
    0x23: "LPDDR5",
    0x24: "HBM3",
}
_PERSISTENT = 0x1F
# Bits of data of a module by its bits with error correction, which some firmware gives
# as those of its data.
_DATA_BITS = {36: 32, 40: 32, 72: 64, 80: 64}
# where a device has the numbers of its strings for serial number and asset tag
_PRIVATE = (0x18, 0x19)
_UNKNOWN = 0xFFFF  # of a size or a width; of a speed: another field has it
_IN_EXTENDED_SIZE = 0x7FFF  # of a size: too large for this field, another has it
_SIZE_IN_KIB = 0x8000  # a bit of a size, which is in MiB without it
_HEX = re.compile(r"\s*((?:[0-9A-Fa-f]{2}\s*)+)")
_TABLE_BYTES = 1 << 18  # as much as the probe reads
# How firmware names places, slot before bank: "P1-DIMMA1 P0_Node0_Channel0_Dimm0".
_SOCKET = re.compile(r"(?:^|[^A-Z])(?:P|CPU|PROC|SOCKET)[ _#-]?([0-9]{1,2})(?![0-9])")
_NODE = re.compile(r"(?:^|[^A-Z])NODE[ _#-]?([0-9]{1,2})(?![0-9])")
_CONTROLLER = re.compile(r"(?:CONTROLLER|(?<![A-Z])[IU]?MC)[ _#-]?([0-9]{1,2})")
_CHANNELS = (
    # P0 CHANNEL A, CPU0 CH0/D0
    r"(?<![A-Z])CH(?:ANNEL|AN)?[ _#-]?([A-Z]|[0-9]{1,2})(?![A-Z0-9])",
    r"DIMM[ _-]?P[0-9]+[ _-]?([A-Z])[0-9](?![0-9])",  # DIMM_P1_M0
    r"DIMM[ _-]?([A-O])[0-9](?![0-9])",  # DIMM_A1, P1-DIMMA1
    r"CPU[0-9]_DIMM_([A-Z])(?![A-Z0-9])",  # CPU0_DIMM_A
    # CPU0_A0, CPU0_C0D0, P1_A1
    r"(?:CPU|(?<![A-Z])P)[0-9]_(?:([A-Z])|C([0-9])D)[0-9](?![A-Z0-9_])",
)
_CHANNEL = re.compile("|".join(_CHANNELS))
# of 16 bits each: a module takes all four
_SUBCHANNELS = re.compile(
    r"(?=.*CONTROLLER[ _-]?[0-9])(?=.*CHANNEL[ _-]?[CD](?![A-Z0-9]))"
)
_EDAC = re.compile(
    r"sys/devices/system/edac/mc/(mc[0-9]{1,3})/(?:((?:dimm|rank)[0-9]{1,4})/)?(\w+)"
)
_EDAC_CHANNEL = re.compile(r"channel ([0-9]{1,3})\b")
_EDAC_ROW = re.compile(r"csrow ([0-9]{1,3})\b")
_get_described_fields = attrgetter(
    "size_bytes", "ranks", "kind", "rated_mts", "configured_mts"
)
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
        if len(part) < size:
            return None
        return int.from_bytes(part, "little")

    def text(self, offset: int) -> str:
        """Return the string whose number stands at `offset`; empty if there is none."""
        place = self.number(offset, 1) or 0
        if not 0 < place <= len(self.strings):
            return ""
        text = self.strings[place - 1][:60]
        return text.decode("ascii", "replace").strip()


def parse_memory(
    sections: Mapping[str, list[str]],
    files: Mapping[str, str],
    cpus: Sequence[Cpu],
    nodes: Sequence[Node],
) -> tuple[Memory, tuple[Node, ...], tuple[str, ...]]:
    """Return the machine's memory, its NUMA nodes with their shares of channels and
    peak rate, and notes on what the firmware says of memory but cannot be true.

    Three sources list modules: SMBIOS, the firmware's table, which only root can read;
    EDAC, a part of the kernel; and a device tree. The first that has any is believed.
    """
    table = parse_smbios_table(sections.get("smbios", []))
    smbios, notes = _read_smbios_memory(table)
    edac = _read_edac_memory(files)  # ABI/testing/sysfs-devices-edac
    slots = _keep_slots_of_processors(smbios.dimms, cpus)
    dimms = slots or edac.dimms or _read_device_tree(sections)
    populated, channels = _count_channels(dimms, edac)
    memory = Memory(
        dimms=dimms,
        channels=channels,
        channels_populated=populated,
        ecc=smbios.ecc or edac.ecc,
        peak_mbps=_compute_peak(dimms, populated),
    )
    with_bandwidth = [
        _add_node_bandwidth(node, memory, files, cpus, nodes) for node in nodes
    ]
    return memory, tuple(with_bandwidth), notes


def _count_channels(
    dimms: tuple[Dimm, ...], edac: Memory
) -> tuple[int | None, int | None]:
    """Return the number of populated channels and of all channels; None for both if
    unknown.

    EDAC's own counts are used if the modules are those of EDAC, which does not list
    empty slots, or if the channels of the modules are unknown.
    """
    counts = _count_populated_and_all_channels(dimms)
    counts_by_edac = len({dimm.channel for dimm in edac.dimms}), edac.channels
    if edac.channels and (counts is None or dimms == edac.dimms):
        return counts_by_edac
    return counts or (None, None)


def parse_smbios_table(lines: Collection[str]) -> bytes:
    """Decode an SMBIOS table from lines of hexadecimal bytes, or from those that
    `dmidecode -u` prints.

    dmidecode prints each structure, and each of its strings as bytes and as text:

        Handle 0x0011, DMI type 17, 40 bytes
            Header and Data:
                11 28 11 00 10 00 FE FF 48 00 40 00 00 40 09 00
            Strings:
                44 49 4D 4D 20 30 00
                DIMM 0
    """
    is_printed_by_dmidecode = any("DMI type" in line for line in lines)
    if not is_printed_by_dmidecode:
        return _read_hex(lines)[:_TABLE_BYTES]
    table = b""
    _before_first, *structures = "\n".join(lines).split("Handle ")
    for structure in structures:
        body, _, strings = structure.partition("Strings:")
        _rest_of_handle_line, *body_lines = body.splitlines()
        string_lines = strings.splitlines()[1:]  # without the rest of "Strings:"
        # Each string ends with a zero, as printed, and then their list with another.
        # Without strings there are two zeros.
        ended_strings = _read_hex(_drop_texts(string_lines))
        table += _read_hex(body_lines)
        table += ended_strings or b"\0"
        table += b"\0"
    return table[:_TABLE_BYTES]


def keep_memory_only(lines: Collection[str]) -> list[str]:
    """Strip an SMBIOS table of all but memory, and of serial numbers; return it as one
    hexadecimal line.
    """
    table = b""
    for structure in _iter_structures(parse_smbios_table(lines)):
        if structure.kind not in (_ARRAY, _DEVICE, _END):
            continue
        strings = list(structure.strings)
        if structure.kind == _DEVICE:
            _blank_private_strings(structure, strings)
        # each string ends with a zero, and so does their list, even an empty one
        ended_strings = b"".join(string + b"\0" for string in strings)
        table += structure.body
        table += ended_strings or b"\0"
        table += b"\0"
    if not table:
        return []
    return [table.hex()]


def _blank_private_strings(device: _Structure, strings: list[bytes]) -> None:
    """Replace a device's serial number and asset tag in its strings by a dash."""
    for offset in _PRIVATE:
        place = device.number(offset, 1) or 0
        if 0 < place <= len(strings):
            strings[place - 1] = b"-"


def describe_memory(memory: Memory) -> str | None:
    """Describe modules and channels: "2 x 16 GiB DDR4-3200 at 2933 MT/s, 1 of 2
    channels populated".
    """
    dimms_by_type = defaultdict[tuple[object, ...], list[Dimm]](list)
    for dimm in memory.populated:
        dimms_by_type[_get_described_fields(dimm)].append(dimm)
    if not dimms_by_type:
        return None
    has_mixed_ranks = len({dimm.ranks for dimm in memory.populated}) > 1
    modules = [
        _describe_alike_modules(dimms, names_ranks=has_mixed_ranks)
        for dimms in dimms_by_type.values()
    ]
    parts = [
        " + ".join(modules),
        describe_channels(memory.channels_populated, memory.channels),
    ]
    if memory.ecc:
        parts.append(f"ECC {memory.ecc}")
    return ", ".join(filter(None, parts))


def _describe_alike_modules(dimms: Sequence[Dimm], *, names_ranks: bool) -> str:
    """Describe modules of one type: "2 x 16 GiB 2R DDR4-3200 at 2933 MT/s"."""
    dimm = dimms[0]
    words = [str(len(dimms)), _format_module_size(dimm.size_bytes)]
    if names_ranks and dimm.ranks:
        words.append(f"{dimm.ranks}R")
    type_and_rate = [str(part) for part in (dimm.kind, dimm.rated_mts) if part]
    if type_and_rate:
        words.append("-".join(type_and_rate))
    if dimm.configured_mts and dimm.configured_mts != dimm.rated_mts:
        words.append(f"at {dimm.configured_mts} MT/s")
    return " ".join(words)


def _format_module_size(size_bytes: int | None) -> str:
    if size_bytes is None:
        return "modules"
    if size_bytes >= 1 << 30:
        return f"x {size_bytes / (1 << 30):g} GiB"
    return f"x {size_bytes / (1 << 20):g} MiB"


def _read_hex(lines: Iterable[str]) -> bytes:
    return bytes.fromhex("".join(line for line in lines if _HEX.fullmatch(line)))


def _drop_texts(lines: Iterable[str]) -> list[str]:
    """Drop the texts of dmidecode's strings: dmidecode prints each string as lines of
    bytes, the last of which ends with 00, and then a line with its text.
    """
    byte_lines = []
    is_text = False
    for line in lines:
        if is_text:
            is_text = False
            continue
        byte_lines.append(line)
        is_text = line.rstrip().endswith("00")
    return byte_lines


def _iter_structures(table: bytes) -> Iterator[_Structure]:
    """Yield the structures of an SMBIOS table, up to its end marker or to where it is
    damaged.
    """
    place = 0
    while len(table) - place >= 4:  # there is room for the header of a structure
        # A structure has a body and then strings. The body begins with its kind and its
        # length, a byte each. Behind each string is a zero, and one more at the end;
        # without strings, two zeros follow the body.
        kind = table[place]
        length = table[place + 1]
        end = table.find(b"\0\0", place + length)
        if length < 4 or end < 0:
            return
        body = table[place : place + length]
        strings = table[place + length : end]
        texts = strings.split(b"\0") if strings else ()
        yield _Structure(kind, body, tuple(texts))
        if kind == _END:
            return
        place = end + 2


def _read_smbios_memory(table: bytes) -> tuple[Memory, tuple[str, ...]]:
    """Return the slots and the error correction that an SMBIOS table has, and notes on
    what contradicts itself. Each slot names its channel; the number of channels is left
    None. A table without an end is damaged: then no slots are returned.
    """
    structures = list(_iter_structures(table))
    if not structures or structures[-1].kind != _END:
        return Memory(), ()
    ecc_by_array = _find_ecc_by_array(structures)
    ecc = _find_only_value(ecc_by_array.values())
    devices = _find_slots(structures, ecc_by_array)
    places = [_read_place(device) for device in devices]
    dimms, dimm_notes = _read_dimms(devices, places)
    if not any(dimm.is_populated for dimm in dimms):
        return Memory(ecc=ecc), ()
    settled, channel_notes = _settle_channels(dimms, places)
    possible_ecc, ecc_notes = _drop_ecc_without_bits(ecc, devices, dimms)
    notes = dict.fromkeys([*dimm_notes, *channel_notes, *ecc_notes])  # each once
    return Memory(settled, ecc=possible_ecc), tuple(notes)


def _read_place(device: _Structure) -> str:
    """Return the names of a slot and of its bank: "P1-DIMMA1 P0_NODE0_CHANNEL0"."""
    slot = device.text(_DEVICE_SLOT)
    bank = device.text(_DEVICE_BANK)
    return f"{slot} {bank}".upper()


def _read_dimms(
    devices: Sequence[_Structure], places: Sequence[str]
) -> tuple[list[Dimm], list[str]]:
    """Return the module in each slot, and notes on what contradicts itself. places: the
    locators of the slots.
    """
    dimms = []
    notes = []
    sockets = _find_sockets(places)
    for device, place, socket in zip(devices, places, sockets, strict=True):
        as_told = _read_dimm(device, place, socket)
        dimm, own_notes = _drop_contradictions(as_told)
        dimms.append(dimm)
        notes += own_notes
    return dimms, notes


def _find_ecc_by_array(
    structures: Iterable[_Structure],
) -> dict[int | None, str | None]:
    """Return the error correction of each array of system memory, None if unknown, by
    the handle of the array.
    """
    ecc_by_array = {}
    for structure in structures:
        use = structure.number(*_ARRAY_USE)
        if structure.kind == _ARRAY and use == _SYSTEM_MEMORY:
            handle = structure.number(*_HANDLE)
            correction = structure.number(*_ARRAY_CORRECTION) or 0
            ecc_by_array[handle] = _ECC.get(correction)
    return ecc_by_array


def _find_slots(
    structures: Iterable[_Structure], arrays: Container[int | None]
) -> list[_Structure]:
    """Return the slots of these arrays, without those of persistent memory. arrays:
    their handles.
    """
    slots = []
    for structure in structures:
        if structure.kind != _DEVICE:
            continue
        is_in_arrays = structure.number(*_DEVICE_ARRAY) in arrays
        is_persistent = structure.number(*_DEVICE_KIND) == _PERSISTENT
        if is_in_arrays and not is_persistent:
            slots.append(structure)
    return slots


def _find_sockets(places: Sequence[str]) -> list[int | None]:
    """Return the socket of each place: the number that the place gives to its socket,
    or else to its node. Return None for all if not every place gives one.

    The memory array that a slot belongs to does not tell the socket: a second array
    need not be that of a second socket. places: "P1-DIMMA1 P0_NODE0_CHANNEL0".
    """
    for pattern in (_SOCKET, _NODE):
        matches = [pattern.search(place) for place in places]
        sockets: list[int | None] = [int(match[1]) for match in matches if match]
        if len(sockets) == len(places):
            return sockets
    return [None] * len(places)


def _drop_contradictions(dimm: Dimm) -> tuple[Dimm, list[str]]:
    """Return the module, and notes. If the speed that it runs at is half of the speed
    that it is made for, drop the former, with a note; else there are no notes.
    """
    rated_mts = dimm.rated_mts or 0
    configured_mts = dimm.configured_mts or 0
    # The clock in MHz is half the rate in MT/s, as there are two transfers a clock.
    # Both numbers may be rounded.
    is_half = abs(2 * configured_mts - rated_mts) <= 1
    if not (configured_mts and is_half):
        return dimm, []
    note = (
        f"The firmware gives {configured_mts} MT/s as the speed of memory modules for"
        f" {rated_mts} MT/s: it may be their clock in MHz, so their speed is unknown."
    )
    return replace(dimm, configured_mts=None), [note]


def _drop_ecc_without_bits(
    ecc: str | None, devices: Iterable[_Structure], dimms: Iterable[Dimm]
) -> tuple[str | None, list[str]]:
    """Return the error correction, and notes. If it needs modules that have more bits
    than those of data, and none has them, drop it, with a note; else there are no
    notes. dimms: the modules of `devices`, the slots.

    If the firmware gives no widths of modules, there is no note: QEMU's gives none, and
    claims error correction of all memory.
    """
    if ecc not in _NEEDS_WIDER_MODULES or any(map(_has_correction_bits, devices)):
        return ecc, []
    if not any(dimm.width_bits for dimm in dimms):
        return None, []
    note = (
        f"The firmware says that memory has error correction ({ecc}), and no module has"
        " bits for it: whether it has is unknown."
    )
    return None, [note]


def _settle_channels(
    dimms: Sequence[Dimm], places: Sequence[str]
) -> tuple[tuple[Dimm, ...], list[str]]:
    """Return the modules with their channels if those can be right: each module has
    one, and no two slots have the same place. Else return the modules without channels,
    and a note if places repeat.

    places: the firmware's names of each module's slot and bank, such as "P1-DIMMA1
    P0_NODE0_CHANNEL0".
    """
    without_channels = tuple(replace(dimm, channel=None) for dimm in dimms)
    if any(dimm.channel is None for dimm in dimms):
        return without_channels, []
    place, count = Counter(places).most_common(1)[0]
    if count == 1:
        return _join_subchannels(dimms, places), []
    note = (
        f"The firmware gives {count} memory slots one place, {place.strip()}, so it"
        " does not tell their channels."
    )
    return without_channels, [note]


def _join_subchannels(dimms: Sequence[Dimm], places: Iterable[str]) -> tuple[Dimm, ...]:
    """Return the modules, with whole channels in the place of parts of channels.

    A channel has four parts of 16 bits, and a module of 64 bits takes all four. Where
    the firmware names the parts, "P0 MC1 A" and "P0 MC1 B" become "P0 MC1". A firmware
    names parts for all slots of a machine or for none. places: the firmware's names of
    each slot and its bank.
    """
    are_parts_named = any(_SUBCHANNELS.search(place) for place in places)
    is_64_bits_wide = any(dimm.is_populated and dimm.width_bits == 64 for dimm in dimms)
    if not (are_parts_named and is_64_bits_wide):
        return tuple(dimms)
    joined = []
    for dimm in dimms:
        whole_channel, _, _part = (dimm.channel or "").rpartition(" ")
        joined.append(replace(dimm, channel=whole_channel))
    return tuple(joined)


def _find_only_value(values: Iterable[str | None]) -> str | None:
    """Return the value if all are the same; None if they differ or there is none."""
    distinct = set(values)
    if len(distinct) != 1:
        return None
    return distinct.pop()


def _read_dimm(device: _Structure, place: str, socket: int | None) -> Dimm:
    """Return the module in a slot, as the firmware describes it. place: the firmware's
    names of the slot and its bank, such as "P1-DIMMA1 P0_NODE0_CHANNEL0". socket: None
    if unknown.
    """
    kind = device.number(*_DEVICE_KIND) or 0
    ranks = (device.number(*_DEVICE_RANKS) or 0) & 15  # the upper four bits are no rank
    return Dimm(
        slot=device.text(_DEVICE_SLOT) or None,
        channel=_name_channel(place, socket),
        socket=socket,
        size_bytes=_read_module_size(device),
        kind=_KINDS.get(kind),
        rated_mts=_read_speed(device, *_DEVICE_RATED_SPEED),
        configured_mts=_read_speed(device, *_DEVICE_CONFIGURED_SPEED),
        ranks=ranks or None,
        width_bits=_read_data_width(device),
    )


def _has_correction_bits(device: _Structure) -> bool:
    """Report whether a module has more bits than those of data, as error correction
    needs.
    """
    total = device.number(*_DEVICE_ALL_BITS) or _UNKNOWN
    data = device.number(*_DEVICE_DATA_BITS) or _UNKNOWN
    return data in _DATA_BITS or data < total < _UNKNOWN


def _read_data_width(device: _Structure) -> int | None:
    """Return the width of a module's data in bits, without error correction. Return
    None if it is unknown, or more than the width with error correction.
    """
    # a width of 0, as of an empty slot, is unknown as well
    total = device.number(*_DEVICE_ALL_BITS) or _UNKNOWN
    width = device.number(*_DEVICE_DATA_BITS) or _UNKNOWN
    if width == _UNKNOWN:
        return None
    data = _DATA_BITS.get(width, width)  # 72, with error correction, becomes 64
    is_total_known = total != _UNKNOWN
    if is_total_known and data > total:
        return None
    return data


def _name_channel(place: str, socket: int | None) -> str | None:
    """Name a module's channel by its place: "P0 N2 MC1 A" is channel A of memory
    controller 1 of node 2 of socket 0.

    What the place does not name is left out; without a channel, return None.
    """
    channel = _CHANNEL.search(place)
    if channel is None:
        return None
    words = []
    if socket is not None:
        words.append(f"P{socket}")
    node = _NODE.search(place)
    # if the place names no socket, `socket`, the P above, is the node's number already
    if node and _SOCKET.search(place):
        words.append(f"N{node[1]}")
    if controller := _CONTROLLER.search(place):
        words.append(f"MC{controller[1]}")
    words += [group for group in channel.groups() if group]
    return " ".join(words)


def _read_module_size(device: _Structure) -> int | None:
    """Return a module's bytes, 0 for an empty slot; None if unknown. The firmware gives
    a size in MiB or, with the bit _SIZE_IN_KIB, in KiB; one too large for its field is
    in another, in MiB.
    """
    size = device.number(*_DEVICE_SIZE)
    if size is None or size == _UNKNOWN:
        return None
    if size == _IN_EXTENDED_SIZE:
        mib = _read_extended(device, _DEVICE_EXTENDED_SIZE)
        if mib == 0:  # the structure ends before this field, or firmware left it empty
            return None
        return mib << 20
    if size & _SIZE_IN_KIB:
        kib = size - _SIZE_IN_KIB
        mib = kib >> 10  # a module has whole MiB
        return mib << 20
    mib = size
    return mib << 20


def _read_speed(device: _Structure, offset: int, extended: int) -> int | None:
    """Return a speed in MT/s; None if it is 0, as in an empty slot, or not given.
    offset: of its field. extended: of the field for a speed too large for that.
    """
    speed = device.number(offset, 2)
    if speed == _UNKNOWN:
        speed = _read_extended(device, extended)
    return speed or None


def _read_extended(device: _Structure, offset: int) -> int:
    """Return the number of 31 bits at `offset`; 0 if the structure ends before."""
    return (device.number(offset, 4) or 0) & 0x7FFFFFFF


def _read_edac_memory(files: Mapping[str, str]) -> Memory:
    """Return the modules that EDAC lists, the number of all channels, and the error
    correction; of the last two, what is unknown is None.
    """
    ranks_by_module = defaultdict[str | None, list[Dimm]](list)
    corrections = []
    channels = 0
    attributes = _group_edac_attributes(files)
    for (controller, name), texts in attributes.items():
        is_of_controller = name == ""  # else of one of its modules
        if is_of_controller:
            channels += _count_edac_channels(texts)
            continue
        dimm = _read_edac_dimm(controller, name, texts)
        ranks_by_module[dimm.slot].append(dimm)
        correction = texts.get("dimm_edac_mode", "")
        corrections.append(correction.lower())

    dimms = tuple(map(_join_ranks, ranks_by_module.values()))
    memory = Memory(dimms)
    if channels and all(dimm.channel for dimm in dimms):
        memory = replace(memory, channels=channels)
    ecc = _find_only_value(corrections)
    if ecc not in ("", "unknown", "reserved"):
        memory = replace(memory, ecc=ecc)
    return memory


def _count_edac_channels(texts: Mapping[str, str]) -> int:
    """Count the channels of a controller: its last place, such as "channel 1 slot 1",
    has the number of the last channel. Return 0 if that is unknown. texts: the content
    of the controller's files, by name.
    """
    last_channel = _find_in_location(_EDAC_CHANNEL, texts)
    if last_channel is None:
        return 0
    return int(last_channel) + 1


def _group_edac_attributes(
    files: Mapping[str, str],
) -> Mapping[tuple[str, str], Mapping[str, str]]:
    """Return the attributes of each memory controller and of each of its modules: the
    content of the files in its folder, by name.

    A key is the names of a controller and a module, ("mc0", "dimm1"). The controller's
    own attributes have the key ("mc0", "").
    """
    attributes = defaultdict[tuple[str, str], dict[str, str]](dict)
    for path, text in files.items():
        match = _EDAC.fullmatch(path)
        if match is not None:
            controller, name, attribute = match.groups(default="")
            attributes[controller, name][attribute] = text
    return attributes


def _read_edac_dimm(controller: str, name: str, texts: Mapping[str, str]) -> Dimm:
    """Return the module that EDAC lists as "dimm0", or the rank that EDAC lists as
    "rank3": `name`.

    texts: the content of the files on the module or rank, by name. "size" is in MiB.
    "dimm_location" is "channel 1 slot 0" or, of a rank, "csrow 3 channel 1". A rank
    gets the name of its module as slot, so that all ranks of a module have one slot.
    """
    channel = _find_in_location(_EDAC_CHANNEL, texts)
    row = _find_in_location(_EDAC_ROW, texts)
    kind = re.search(r"(LP)?DDR[0-9]", texts.get("dimm_mem_type", ""))
    mib = texts.get("size", "")
    size_bytes = None
    if re.fullmatch(r"[0-9]{1,9}", mib):
        size_bytes = int(mib) << 20
    dimm = Dimm(
        slot=f"{controller} {name}", size_bytes=size_bytes, kind=kind and kind[0]
    )
    if not channel:
        return dimm
    dimm = replace(dimm, channel=f"{controller} {channel}")
    if not row or not name.startswith("rank"):
        return dimm
    # the ranks in rows 0 and 1 are of one module, those in rows 2 and 3 of the next
    module = f"channel {channel} module {int(row) // 2}"
    return replace(dimm, slot=f"{controller} {module}", ranks=1)


def _find_in_location(pattern: re.Pattern[str], texts: Mapping[str, str]) -> str | None:
    """Return the number that `pattern` finds in the place of a module, or in the last
    place of a controller.
    """
    location = texts.get("dimm_location") or texts.get("max_location") or ""
    match = pattern.search(location)
    if match is None:
        return None
    return match[1]


def _join_ranks(ranks: Sequence[Dimm]) -> Dimm:
    """Join a module's ranks into one Dimm, adding their sizes; the size is None if that
    of a rank is unknown.

    EDAC lists modules either by rank, each as a Dimm with `ranks` 1, or whole, each as
    a single Dimm with `ranks` None, which stays so.
    """
    first = ranks[0]
    sizes = [rank.size_bytes for rank in ranks if rank.size_bytes is not None]
    size_bytes = None
    if len(sizes) == len(ranks):
        size_bytes = sum(sizes)
    is_listed_by_rank = first.ranks is not None
    count = len(ranks) if is_listed_by_rank else None
    return replace(first, size_bytes=size_bytes, ranks=count)


def _read_device_tree(sections: Mapping[str, list[str]]) -> tuple[Dimm, ...]:
    """Return one Dimm for each LPDDR channel that the device tree has, numbered from 0.

    A channel has a line `lpddr RANKS COMPATIBLE` in section `system`, such as "lpddr 2
    jedec,lpddr4-channel". Other lines are skipped.
    """
    dimms: list[Dimm] = []
    for line in sections.get("system", []):
        words = line.split(None, 2)
        if not line.startswith("lpddr ") or len(words) < 3:
            continue
        _, ranks, compatible = words
        kind = _LPDDR.search(compatible)
        if kind is None:
            continue
        dimm = Dimm(slot=None, channel=str(len(dimms)), kind=kind[1].upper())
        if ranks in {"1", "2", "3", "4"}:
            dimm = replace(dimm, ranks=int(ranks))
        dimms.append(dimm)
    return tuple(dimms)


def _keep_slots_of_processors(
    dimms: tuple[Dimm, ...], cpus: Iterable[Cpu]
) -> tuple[Dimm, ...]:
    """Return the modules without the slots of missing processors, which the firmware
    lists as well.

    If slots are of more sockets than there are packages, the slots of each socket
    without a module are left out.
    """
    packages = {cpu.package for cpu in cpus} - {None}
    sockets = _list_sockets(dimms)
    if not packages or len(sockets) <= len(packages):
        return dimms
    populated = [dimm for dimm in dimms if dimm.is_populated]
    sockets_with_modules = _list_sockets(populated)
    return tuple(dimm for dimm in dimms if dimm.socket in sockets_with_modules)


def _count_populated_and_all_channels(
    dimms: Collection[Dimm],
) -> tuple[int, int] | None:
    """Return the number of populated channels and of all channels; None if a module's
    channel is unknown.
    """
    if not dimms or any(dimm.channel is None for dimm in dimms):
        return None
    channels = {dimm.channel for dimm in dimms}
    populated = {dimm.channel for dimm in dimms if dimm.is_populated}
    return len(populated), len(channels)


def _compute_peak(dimms: Iterable[Dimm], populated: int | None) -> int | None:
    """Return the peak of all populated channels in MB/s: of each, the width of its
    modules times the speed that they run at. Return None if unknown.

    populated: the number of populated channels. It counts only if the modules do not
    name their channels: then all must have one rate, which is that of each channel.
    """
    rates_by_channel = defaultdict[str | None, list[int]](list)
    for dimm in dimms:
        if not dimm.is_populated:
            continue
        if not dimm.width_bits or not dimm.configured_mts:
            return None
        width_bytes = dimm.width_bits // 8
        rates_by_channel[dimm.channel].append(width_bytes * dimm.configured_mts)
    # channels are known of all modules or of none (`_settle_channels`)
    are_channels_known = None not in rates_by_channel
    if are_channels_known:
        # a channel runs at the rate of its slowest module
        peak = sum(min(rates) for rates in rates_by_channel.values())
        return peak or None
    rates = set(rates_by_channel[None])
    # which channel has which rate is unknown
    if len(rates) > 1 or populated is None:
        return None
    (rate,) = rates
    return rate * populated or None


def _add_node_bandwidth(
    node: Node,
    memory: Memory,
    files: Mapping[str, str],
    cpus: Sequence[Cpu],
    nodes: Sequence[Node],
) -> Node:
    """Return the node with its channels, its peak rate, and the rates that the
    firmware's table HMAT gives. Nodes of a package share its channels and peak equally;
    the only node of a machine has all channels.
    """
    share = memory
    if len(nodes) > 1:
        share = _compute_node_share(node, memory, cpus, nodes)
    return replace(
        node,
        channels=share.channels,
        channels_populated=share.channels_populated,
        peak_mbps=share.peak_mbps,
        read_mbps=_read_hmat_rate(files, node, "read"),
        write_mbps=_read_hmat_rate(files, node, "write"),
    )


def _read_hmat_rate(files: Mapping[str, str], node: Node, access: str) -> int | None:
    """Return the rate in ACPI's HMAT (numaperf.rst) in MB/s. access: read or write."""
    folder = f"sys/devices/system/node/node{node.node}/access0/initiators"
    rate = files.get(f"{folder}/{access}_bandwidth", "")
    if not re.fullmatch(r"[0-9]{1,9}", rate):
        return None
    return int(rate) or None


def _compute_node_share(
    node: Node, memory: Memory, cpus: Collection[Cpu], nodes: Iterable[Node]
) -> Memory:
    """Return a node's share of its package's channels and peak rate: an equal part, as
    each node of the package has. Return an empty Memory if unknown, as for a node whose
    CPUs are in several packages or in none.
    """
    packages_by_node = _group_packages_by_node(cpus)
    own_packages = packages_by_node[node.node]
    if len(own_packages) != 1:
        return Memory()
    # the nodes of a package share the package's modules
    (package,) = own_packages
    all_packages = set().union(*packages_by_node.values())
    dimms = _select_dimms(memory.dimms, package, sorted(all_packages))
    sharing = [other for other in nodes if packages_by_node[other.node] == own_packages]
    return _divide_equally(dimms, len(sharing))


def _group_packages_by_node(
    cpus: Iterable[Cpu],
) -> defaultdict[int | None, set[int]]:
    """Return the packages that each node has CPUs of."""
    packages_by_node = defaultdict[int | None, set[int]](set)
    for cpu in cpus:
        if cpu.package is not None:
            packages_by_node[cpu.node].add(cpu.package)
    return packages_by_node


def _select_dimms(
    dimms: tuple[Dimm, ...], package: int, packages: Sequence[int]
) -> tuple[Dimm, ...]:
    """Return the modules of `package`; none if it is unknown which these are.

    packages: all packages, ascending. The firmware may give a socket another number
    than the kernel gives the package; their order is taken to be the same.
    """
    if len(packages) == 1:
        return dimms
    sockets = _list_sockets(dimms)  # ascending
    if len(sockets) != len(packages):
        return ()
    socket = sockets[packages.index(package)]
    return tuple(dimm for dimm in dimms if dimm.socket == socket)


def _divide_equally(dimms: Collection[Dimm], sharing: int) -> Memory:
    """Return an equal share of the modules' channels and peak, without modules; an
    empty Memory if unknown. sharing: how many nodes share the modules.
    """
    counts = _count_populated_and_all_channels(dimms)
    if counts is None:
        return Memory()
    populated, channels = counts
    if populated % sharing or channels % sharing:
        return Memory()
    share = Memory(
        channels=channels // sharing,
        channels_populated=populated // sharing,
    )
    peak = _compute_peak(dimms, populated)
    if peak is None:
        return share
    return replace(share, peak_mbps=peak // sharing)


def _list_sockets(dimms: Iterable[Dimm]) -> list[int]:
    return sorted({dimm.socket for dimm in dimms if dimm.socket is not None})
