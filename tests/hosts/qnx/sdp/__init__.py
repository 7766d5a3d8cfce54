"""A stand-in for QNX's software development platform, laid out as the real one. It is
not QNX.

The headers and the shim are ours, written from documented prototypes: what compiles
with them and runs proves our code, and nothing about QNX. Its agent calls its OS
`qnx-standin`.
"""

import shutil
from pathlib import Path

HERE = Path(__file__).parent
HOST = "host/linux/x86_64"
QCC = "host/linux/x86_64/usr/bin/qcc"
BEYOND_POSIX = ("sys/auxv.h", "endian.h", "linux/perf_event.h", "linux/futex.h")


def install(folder: Path, release: int = 8) -> Path:
    """Lay out an SDP of QNX 7 or 8 in `folder`, which is made, and return it."""
    target = folder / "target" / ("qnx7" if release == 7 else "qnx")
    (folder / QCC).parent.mkdir(parents=True)
    shutil.copy(HERE / "qcc", folder / QCC)
    shutil.copytree(HERE / "include", target / "usr/include")
    shutil.copytree(HERE / "include", target / "standin/include")
    shutil.copy(HERE / "shim.c", target / "standin/shim.c")
    for name in BEYOND_POSIX:
        header = target / "usr/include" / name
        header.parent.mkdir(exist_ok=True)
        header.write_text(_refuse_header(name))
    (folder / "qnxsdp-env.sh").write_text("echo nobody may run this >&2; exit 1\n")
    return folder


def environment(sdp: Path) -> dict[str, str]:
    """Return the variables that the SDP's own script would set, as far as qcc needs
    them.
    """
    target = next((sdp / "target").iterdir())
    return {"QNX_HOST": str(sdp / HOST), "QNX_TARGET": str(target)}


def _refuse_header(name: str) -> str:
    """Return a header that QNX has not. The C library below the stand-in may include
    its own of that name.
    """
    return (
        f"#if __INCLUDE_LEVEL__ == 1\n#error {name}: no such header on"
        f" QNX\n#endif\n#include_next <{name}>\n"
    )
