"""Memory modules, channels and peaks, as the firmware and the kernel describe them."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.facts import probe
from fleet.facts.memory import describe_memory, keep_memory_only, parse_memory
from fleet.facts.systems import find_noise
from fleet.model import Cpu, Facts, Memory, Node
from tests.facts.smbios import build_array, build_dimm, build_table, print_hex
from tests.facts.trees import Tree

EDAC = "sys/devices/system/edac/mc"


def read(table, packages=1, nodes=1, files=()):
    """Parse a table on a machine of so many packages and nodes."""
    share = max(nodes // packages, 1)
    cpus = [
        Cpu(node, node=node, package=node // share if nodes >= packages else node)
        for node in range(nodes)
    ]
    memory, with_memory, _ = parse_memory(
        {"smbios": print_hex(table)},
        dict(files),
        cpus,
        [Node(node) for node in range(nodes)],
    )
    return memory, [
        (node.channels_populated, node.channels, node.peak_mbps) for node in with_memory
    ]


def dimms(names, **values):
    return [
        build_dimm(0x100 + place, *pair, **values) for place, pair in enumerate(names)
    ]


SUPERMICRO = [
    (f"P{socket + 1}-DIMM{channel}1", f"P{socket}_Node0_Channel{place}_Dimm0")
    for socket, (place, channel) in product((0, 1), enumerate("ABCDEFGH"))
]
EPYC = [
    ("DIMM 0", f"P{socket} CHANNEL {channel}")
    for socket in (0, 1)
    for channel in "ABCDEFGHIJKL"
]
GIGABYTE = [(f"DIMM_P0_{channel}0", "BANK 0") for channel in "ABCDEFGH"]
DELL = [(f"{socket}{slot}", "") for socket in "AB" for slot in range(1, 9)]
HPE = [(f"PROC {socket} DIMM {slot}", "") for socket in (1, 2) for slot in range(1, 9)]
INTEL = [
    (f"CPU{socket}_DIMM_{channel}1", f"NODE {socket}")
    for socket in (0, 1)
    for channel in "ABCD"
]
DESKTOP = [
    ("DIMM_A1", "BANK 0"),
    ("DIMM_A2", "BANK 1"),
    ("DIMM_B1", "BANK 2"),
    ("DIMM_B2", "BANK 3"),
]
LAPTOP = [
    ("Controller0-ChannelA-DIMM0", "BANK 0"),
    ("Controller1-ChannelA-DIMM0", "BANK 0"),
]
SOLDERED = [
    (f"Controller{mc}-Channel{channel}", "BANK 0")
    for mc in (0, 1)
    for channel in "ABCD"
]
AM4 = [(f"DIMM {slot}", "P0 CHANNEL A") for slot in (0, 1)]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWX"
MODULES = [build_array(1)]
MACHINES = {
    "supermicro": (
        build_table(build_array(1), dimms(SUPERMICRO, rated=3200, configured=2933)),
        (2, 2),
        (
            (
                "16 x 16 GiB DDR4-3200 at 2933 MT/s, 16 of 16 channels populated, ECC"
                " multi-bit"
            ),
            375424,
        ),
        [(8, 8, 187712)] * 2,
    ),
    "epyc with an empty channel": (
        build_table(
            build_array(1),
            dimms(EPYC[:11], mib=65536, kind=0x22, rated=4800),
            build_dimm(0x200, *EPYC[11], mib=0),
            dimms(EPYC[12:], mib=65536, kind=0x22, rated=4800),
        ),
        (2, 2),
        ("23 x 64 GiB DDR5-4800, 23 of 24 channels populated, ECC multi-bit", 883200),
        [(11, 12, 422400), (12, 12, 460800)],
    ),
    "epyc of four nodes a socket": (
        build_table(MODULES, dimms(GIGABYTE)),
        (1, 4),
        ("8 x 16 GiB DDR4-3200, 8 of 8 channels populated, ECC multi-bit", 204800),
        [(2, 2, 51200)] * 4,
    ),
    "hpe": (
        build_table(
            build_array(1), build_array(2), dimms(HPE[:8]), dimms(HPE[8:], array=2)
        ),
        (2, 2),
        ("16 x 16 GiB DDR4-3200, ECC multi-bit", None),
        [(None, None, None)] * 2,
    ),
    "intel with one processor": (
        build_table(
            MODULES, dimms(INTEL[:4], kind=0x18, rated=1866), dimms(INTEL[4:], mib=0)
        ),
        (1, 1),
        ("4 x 16 GiB DDR3-1866, 4 of 4 channels populated, ECC multi-bit", 59712),
        [(4, 4, 59712)],
    ),
    "server with persistent memory and a video array": (
        build_table(
            build_array(1, ecc=5),
            build_array(9, use=4),
            dimms(INTEL[:4], mib=32768, rated=70000),
            dimms(INTEL[:4], mib=131072, kind=0x1F),
            build_dimm(0x300, "VRAM", array=9),
        ),
        (1, 1),
        ("4 x 32 GiB DDR4-70000, 4 of 4 channels populated, ECC single-bit", 2240000),
        [(4, 4, 2240000)],
    ),
    "desktop with one module": (
        build_table(
            build_array(1, ecc=3),
            dimms(DESKTOP[:1], mib=0),
            dimms(DESKTOP[1:2]),
            dimms(DESKTOP[2:], mib=0),
        ),
        (1, 1),
        ("1 x 16 GiB DDR4-3200, 1 of 2 channels populated, ECC none", 25600),
        [(1, 2, 25600)],
    ),
    "laptop with unequal modules": (
        build_table(
            build_array(1, ecc=3), dimms(LAPTOP[:1]), dimms(LAPTOP[1:], mib=8192)
        ),
        (1, 1),
        (
            (
                "1 x 16 GiB DDR4-3200 + 1 x 8 GiB DDR4-3200, 2 of 2 channels populated,"
                " ECC none"
            ),
            51200,
        ),
        [(2, 2, 51200)],
    ),
    "soldered lpddr5": (
        build_table(
            build_array(1, ecc=3),
            dimms(SOLDERED, mib=2048, kind=0x23, rated=6400, width=16),
        ),
        (1, 1),
        ("8 x 2 GiB LPDDR5-6400, 8 of 8 channels populated, ECC none", 102400),
        [(8, 8, 102400)],
    ),
    "board that leaves speeds open": (
        build_table(
            build_array(1, ecc=2),
            dimms(AM4[:1], rated=0),
            dimms(AM4[1:], mib=0, rated=0),
        ),
        (1, 1),
        ("1 x 16 GiB DDR4, 1 of 1 channels populated", None),
        [(1, 1, None)],
    ),
}


@pytest.mark.parametrize("name", MACHINES)
def test_modules_channels_and_peak_are_what_the_firmware_says(name):
    table, (packages, nodes), (sentence, peak), by_node = MACHINES[name]
    memory, of_nodes = read(table, packages, nodes)
    assert describe_memory(memory) == sentence
    assert memory.peak_mbps == peak
    assert of_nodes == by_node


@pytest.mark.parametrize(
    ("slots", "channels"),
    [
        ([f"P{p}-DIMM{c}{d}" for p, c, d in product((1, 2), LETTERS[:8], (1, 2))], 16),
        (
            [
                f"DIMM_P{place // 8}_{c}{d}"
                for (place, c), d in product(enumerate(LETTERS[:16]), (0, 1))
            ],
            16,
        ),
        ([f"DIMM_P{place // 12}_{c}0" for place, c in enumerate(LETTERS)], 24),
        ([f"CPU{p}_{c}{d}" for p, c, d in product((0, 1), LETTERS[:4], (0, 1))], 8),
        ([f"P{p}_{c}{d}" for p, c, d in product((1, 2), LETTERS[:8], (1, 2))], 16),
        ([f"CPU{p}_C{c}D{d}" for p, c, d in product((0, 1), range(8), (0, 1))], 16),
        ([f"CPU{p}_CH{c}_D{d}" for p, c, d in product((0, 1), range(8), (0, 1))], 16),
        ([f"CPU{p} CH{c}/D{d}" for p, c, d in product((0, 1), range(8), (0, 1))], 16),
        ([f"CPU{p}_DIMM_{c}" for p, c in product((0, 1), LETTERS[:12])], 24),
        (
            [
                f"CPU{p}_MC{place // 2}_DIMM_{c}0"
                for p, (place, c) in product((0, 1), enumerate(LETTERS[:8]))
            ],
            16,
        ),
        (
            [
                f"SOCKET {p} CHANNEL {c} DIMM {d}"
                for p, c, d in product((0, 1), range(8), (0, 1))
            ],
            16,
        ),
        ([f"PROC 1 DIMM {place}{c}" for place, c in enumerate(LETTERS[:12], 1)], None),
        ([f"P{p}_C{c}_D0" for p, c in product((0, 1), range(8))], None),
        (["P1-DIMM1A", "P1-DIMM1B", "P1-DIMM2A", "P1-DIMM2B"], None),
        (["DIMM A", "DIMM B"], None),
        ([slot for slot, _ in DELL], None),
        ([f"Socket {p} slot {slot}" for p, slot in product((0, 1), range(4))], None),
        (["LP5x_0", "LP5x_1"], None),
        (["DIMM 0"], None),
        (["RAM slot #0", "RAM slot #1"], None),
    ],
)
def test_channels_are_counted_in_each_style_of_slot_names(slots, channels):
    memory, _ = read(
        build_table(MODULES, dimms([(slot, "BANK 0") for slot in slots])), 2, 2
    )
    assert memory.channels == channels
    assert memory.channels_populated == channels


def test_a_module_takes_all_subchannels_of_its_controller():
    names = [
        (f"Controller{mc}-Channel{channel}-DIMM0", "BANK 0")
        for mc, channel in product((0, 1), "ABCD")
    ]
    full = build_table(
        MODULES,
        dimms(names[:1]),
        dimms(names[1:4], mib=0),
        dimms(names[4:5]),
        dimms(names[5:], mib=0),
    )
    half = build_table(MODULES, dimms(names[:1]), dimms(names[1:], mib=0))
    counts = [
        (read(table)[0].channels_populated, read(table)[0].channels)
        for table in (full, half)
    ]
    assert counts == [(2, 2), (1, 2)]


def read_notes(*devices):
    sections = {"smbios": print_hex(build_table(build_array(1), *devices))}
    memory, _, notes = parse_memory(sections, {}, [], [])
    return memory, notes


def test_modules_with_one_name_have_no_channel():
    """coreboot: dasharo-issues 1206, skulls 144."""
    same = [("Channel-0-DIMM-0", "BANK 0")] * 2
    memory, (note,) = read_notes(dimms(same, mib=8192))
    assert memory.channels is None
    assert memory.channels_populated is None
    assert memory.peak_mbps is None
    assert describe_memory(memory) == "2 x 8 GiB DDR4-3200, ECC multi-bit"
    assert note == (
        "The firmware gives 2 memory slots one place, CHANNEL-0-DIMM-0 BANK 0, so it"
        " does not tell their channels."
    )
    by_edac, _ = read(build_table(MODULES, dimms(same)), files=edac(1, 2, 2))
    assert by_edac.channels == 2
    assert by_edac.peak_mbps == 51200


@pytest.mark.parametrize(
    ("width", "kind", "rated", "peak"),
    [(72, 0x18, 1600, 25600), (80, 0x22, 4800, 76800), (40, 0x22, 4800, 38400)],
)
def test_bits_of_error_correction_carry_no_data(width, kind, rated, peak):
    names = [("DIMM_A1", "NODE 1"), ("DIMM_B1", "NODE 1")]
    memory, notes = read_notes(dimms(names, width=width, kind=kind, rated=rated))
    assert memory.peak_mbps == peak
    assert memory.channels == 2
    assert notes == ()


@pytest.mark.parametrize(
    ("total", "data", "ecc", "notes"),
    [
        (64, 64, None, 1),
        (0, 64, None, 1),
        (0xFFFF, 0xFFFF, None, 0),  # QEMU
        (72, 64, "multi-bit", 0),
        (72, 72, "multi-bit", 0),
    ],
)
def test_error_correction_needs_bits(total, data, ecc, notes):
    """Boards for both kinds of modules say that all memory has it."""
    dimm = build_dimm(2, "DIMM_A1")
    widths = total.to_bytes(2, "little") + data.to_bytes(2, "little")
    memory, said = read_notes(dimm[:8] + widths + dimm[12:])
    assert memory.ecc == ecc
    assert len(said) == notes


def test_a_module_with_more_data_than_bits_has_no_width():
    dimm = build_dimm(2, "DIMM_A1", width=128)
    memory, _ = read_notes(dimm[:8] + b"\x40\x00" + dimm[10:])
    assert memory.dimms[0].width_bits is None
    assert memory.peak_mbps is None


@pytest.mark.parametrize("rated", [1333, 1600, 3200])
def test_half_of_a_modules_speed_may_be_its_clock(rated):
    clock = (rated + 1) // 2
    memory, (note,) = read_notes(dimms(DESKTOP, rated=rated, configured=clock))
    assert memory.dimms[0].configured_mts is None
    assert memory.peak_mbps is None
    assert f"{clock} MT/s as the speed of memory modules for {rated} MT/s" in note
    slowed, notes = read_notes(dimms(DESKTOP, rated=3200, configured=2133))
    assert slowed.peak_mbps == 2 * 2133 * 8
    assert notes == ()


@pytest.mark.parametrize(
    "form",
    [
        "P{p} NODE {n} MC{m} CHANNEL {c}",
        "NODE{n}_P{p}_CHANNEL{c}_MC{m}",
        "CHANNEL{c}_iMC{m}_Node{n}_CPU{p}",
        "Controller{m} Channel{c} Node{n} Socket#{p}",
    ],
)
def test_socket_node_controller_and_channel_stand_in_any_order(form):
    places = product((0, 1), (0, 1), (0, 1), "AB")
    banks = [form.format(p=p, n=n, m=m, c=c) for p, n, m, c in places]
    memory, of_nodes = read(
        build_table(MODULES, dimms([("DIMM 0", bank) for bank in banks])), 2, 2
    )
    assert memory.channels == 16
    assert of_nodes == [(8, 8, 8 * 25600)] * 2
    assert memory.dimms[-1].channel == "P1 N1 MC1 B"


def test_subchannels_are_known_in_any_order():
    names = [
        (f"DIMM0-Channel{channel}-Controller{mc}", "BANK 0")
        for mc, channel in product((0, 1), "ABCD")
    ]
    table = build_table(MODULES, dimms(names[:1]), dimms(names[1:], mib=0))
    assert read(table)[0].channels_populated == 1
    assert read(table)[0].channels == 2


def test_a_second_array_is_of_a_socket_only_by_its_names():
    """A laptop lists soldered memory and its slot as two arrays."""
    arrays = [build_array(1), build_array(2)]
    first = dimms([("DIMM_A1", "BANK 0")])
    other = dimms([("DIMM_B1", "BANK 0")], array=2)
    memory, of_nodes = read(build_table(arrays, first, other), 2, 2)
    assert memory.channels == 2
    assert {dimm.socket for dimm in memory.dimms} == {None}
    assert of_nodes == [(None, None, None)] * 2
    again = dimms([("DIMM_A1", "BANK 0")], array=2)
    assert read(build_table(arrays, first, again))[0].channels is None


def test_firmware_that_lists_only_empty_slots_tells_nothing():
    assert read(build_table(MODULES, dimms(DESKTOP, mib=0)))[0] == Memory(
        ecc="multi-bit"
    )


def test_ranks_are_named_where_they_differ():
    memory, _ = read(
        build_table(MODULES, dimms(DESKTOP[:2], ranks=1), dimms(DESKTOP[2:]))
    )
    assert describe_memory(memory).startswith(
        "2 x 16 GiB 1R DDR4-3200 + 2 x 16 GiB 2R DDR4-3200, 2 of 2"
    )


def test_modules_of_unknown_size_are_counted():
    memory, _ = read(build_table(MODULES, dimms(DESKTOP, mib=0xFFFF)))
    assert (
        describe_memory(memory)
        == "4 modules DDR4-3200, 2 of 2 channels populated, ECC multi-bit"
    )


def test_every_field_of_a_module_is_read():
    memory, _ = read(
        build_table(
            MODULES,
            build_dimm(2, "P1-DIMMB2", rated=0xFFFF + 1, configured=3000, ranks=4),
        )
    )
    (module,) = memory.dimms
    assert module.slot == "P1-DIMMB2"
    assert module.channel == "P1 B"
    assert module.socket == 1
    assert module.rated_mts == 65536
    assert module.configured_mts == 3000
    assert module.ranks == 4
    assert module.width_bits == 64
    assert module.size_bytes == 16 << 30
    assert module.kind == "DDR4"


def test_a_table_that_is_cut_or_damaged_tells_nothing():
    table = build_table(MODULES, dimms(DESKTOP))
    assert read(table)[0].channels == 2
    for damaged in (
        *(table[:end] for end in range(len(table) - 2)),
        table.replace(b"\x11\x5c", b"\x11\x00"),
    ):
        assert read(damaged)[0] == Memory(), len(damaged)


def test_a_string_that_a_module_does_not_have_is_unknown():
    dimm = build_dimm(2, "DIMM_A1", "BANK 0")
    memory, _ = read(build_table(MODULES, dimm[:0x10] + b"\x3f\x40" + dimm[0x12:]))
    assert memory.dimms[0].slot is None
    assert memory.dimms[0].channel is None
    assert memory.channels is None


@given(st.binary(max_size=400), st.integers(0, 400))
def test_no_table_is_an_accident(noise, place):
    table = build_table(MODULES, dimms(DESKTOP))
    for damaged in (
        noise,
        table[:place] + noise + table[place:],
        table[:place] + noise,
    ):
        memory, _ = read(damaged)
        describe_memory(memory)
        assert (
            read(bytes.fromhex("".join(keep_memory_only(print_hex(damaged)))))[0]
            == memory
        )


def test_what_is_kept_of_a_table_has_neither_serial_numbers_nor_other_structures(
    tmp_path,
):
    table = build_table(MODULES, dimms(DESKTOP))
    (line,) = keep_memory_only(print_hex(table))
    entry = bytes.fromhex(line)
    assert not any(secret in entry for secret in (b"S3R1AL", b"ASSET", b"SECRET"))
    assert b"DIMM_A1" in entry
    lines = (
        f"{probe.MARK} begin",
        f"{probe.MARK} smbios",
        *print_hex(table),
        f"{probe.MARK} end",
        "",
    )
    answer = "\n".join(lines)
    assert probe.split_sections(probe.extract_answer(answer.encode()) or "")[
        "smbios"
    ] == [line]


def test_what_dmidecode_dumps_is_the_same_table():
    lines = """# dmidecode 3.4
Getting SMBIOS data from sysfs.
SMBIOS 3.7.0 present.

Handle 0x0001, DMI type 16, 15 bytes
	Header and Data:
		10 0F 01 00 03 03 06 00 00 00 80 FE FF 02 00

Handle 0x0100, DMI type 17, 92 bytes
	Header and Data:
		11 5C 00 01 01 00 FE FF 48 00 40 00 00 40 09 00
		01 02 1A 80 00 80 0C 03 04 05 06 02 00 40 00 00
		75 0B B0 04 B0 04 B0 04 00 00 00 00 00 00 00 00
		00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
		00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
		00 00 00 00 80 0C 00 00 75 0B 00 00
	Strings:
		44 49 4D 4D 5F 41 31 00
		DIMM_A1
		42 41 4E 4B 20 30 00
		BANK 0
		41 42 00
		AB

Handle 0xFEFF, DMI type 127, 4 bytes
	Header and Data:
		7F 04 FF FE
""".splitlines()
    memory, _, _ = parse_memory({"smbios": lines}, {}, [], [])
    words = (
        "1 x 16 GiB DDR4-3200 at 2933 MT/s, 1 of 1 channels populated, ECC multi-bit"
    )
    assert describe_memory(memory) == words


def edac(controllers=2, channels=4, populated=3):
    """Return the files of so many memory controllers."""
    files = {
        f"{EDAC}/mc{mc}/max_location": f"channel {channels - 1} slot 1 "
        for mc in range(controllers)
    }
    for mc, channel in product(range(controllers), range(populated)):
        folder = f"{EDAC}/mc{mc}/dimm{channel}"
        files |= {
            f"{folder}/dimm_location": f"channel {channel} slot 0 ",
            f"{folder}/size": "16384",
        }
        files |= {
            f"{folder}/dimm_mem_type": "Registered-DDR4",
            f"{folder}/dimm_edac_mode": "SECDED",
        }
    return files


def test_without_the_firmware_edac_tells_modules_and_channels():
    memory, _ = read(b"", files=edac())
    assert (
        describe_memory(memory)
        == "6 x 16 GiB DDR4, 6 of 8 channels populated, ECC secded"
    )
    assert memory.peak_mbps is None


def test_ranks_that_edac_lists_are_joined_to_modules():
    files = {f"{EDAC}/mc0/max_location": "csrow 3 channel 1 "}
    for row, channel in product(range(4), range(2)):
        folder = f"{EDAC}/mc0/rank{2 * row + channel}"
        files |= {
            f"{folder}/dimm_location": f"csrow {row} channel {channel} ",
            f"{folder}/size": "16384",
        }
        files |= {
            f"{folder}/dimm_mem_type": "Registered-DDR5",
            f"{folder}/dimm_edac_mode": "S4ECD4ED",
        }
    memory, _ = read(b"", files=files)
    assert (
        describe_memory(memory)
        == "4 x 32 GiB DDR5, 2 of 2 channels populated, ECC s4ecd4ed"
    )
    assert {dimm.ranks for dimm in memory.dimms} == {2}


def test_channels_that_the_firmware_does_not_name_are_those_of_edac():
    memory, of_nodes = read(build_table(MODULES, dimms(DELL[:6])), files=edac())
    assert memory.channels_populated == 6
    assert memory.channels == 8
    assert memory.peak_mbps == 6 * 25600
    assert of_nodes == [(6, 8, 6 * 25600)]


def test_lpddr_channels_of_the_device_tree_have_no_speed():
    lines = [
        "lpddr 2 jedec,lpddr4-channel",
        "lpddr 2 jedec,lpddr4-channel",
        "lpddr",
        "lpddr x y",
    ]
    memory, _, _ = parse_memory({"system": lines}, {}, [], [])
    assert memory.channels_populated == 2
    assert memory.channels == 2
    assert memory.dimms[0].kind == "LPDDR4"
    assert memory.dimms[0].ranks == 2
    assert memory.dimms[0].size_bytes is None
    assert memory.peak_mbps is None


@pytest.mark.parametrize(("ranks", "known"), [([0, 1], 2), ([0], 1), ([], None)])
def test_the_probe_counts_the_ranks_that_a_channel_names(facts, ranks, known):
    tree = Tree(2)
    channel = "proc/device-tree/lpddr-channel0"
    tree.files[f"{channel}/compatible"] = "jedec,lpddr4-channel"
    tree.files |= {f"{channel}/rank@{rank}/density": "8192" for rank in ranks}
    tree.files["proc/cpuinfo"] = "processor\t: 0\nflags\t\t: fpu"
    (dimm,) = facts(tree).memory.dimms
    assert dimm.ranks == known


def test_the_probe_reads_table_edac_and_hmat(facts):
    tree = Tree(2)
    node = "sys/devices/system/node/node0"
    tree.files |= edac(1, 2, 1) | {
        f"{node}/cpulist": "0-1",
        f"{node}/access0/initiators/read_bandwidth": "204800",
        f"{node}/access0/initiators/write_bandwidth": "x",
    }
    tree.files["proc/cpuinfo"] = "processor\t: 0\nflags\t\t: fpu"
    plain = facts(tree)
    assert (
        plain.memory_modules == "1 x 16 GiB DDR4, 1 of 2 channels populated, ECC secded"
    )
    assert plain.nodes[0].read_mbps == 204800
    assert plain.nodes[0].write_mbps is None


def test_the_probe_reads_the_firmwares_table(facts, tmp_path):
    folder = tmp_path / "root/sys/firmware/dmi/tables"
    folder.mkdir(parents=True)
    (folder / "DMI").write_bytes(MACHINES["desktop with one module"][0])
    result = facts(Tree(2))
    assert result.memory_modules == MACHINES["desktop with one module"][2][0]
    assert "SECRET" not in result.probe


@pytest.mark.parametrize(
    ("machine", "kinds"),
    [
        ("desktop with one module", ["channel"]),
        ("epyc with an empty channel", ["channel"]),
        ("laptop with unequal modules", ["dimms"]),
        ("supermicro", ["dimm_speed"]),
        ("hpe", []),
        ("soldered lpddr5", []),
    ],
)
def test_check_names_an_empty_channel_unequal_modules_and_a_lower_speed(machine, kinds):
    facts = Facts("linux", "x86_64", memory=read(MACHINES[machine][0])[0])
    findings = [
        item
        for item in find_noise(facts)
        if item.kind in ("channel", "dimms", "dimm_speed")
    ]
    assert [item.kind for item in findings] == kinds
