"""Libraries of tests/native/trouble, preloaded into the agent: a machine other than
this one.
"""

import functools
import subprocess
import tempfile
from pathlib import Path

from tests import needs

TROUBLE = Path(__file__).parent / "trouble"

_folder = tempfile.TemporaryDirectory(prefix="fleet-trouble-")


@functools.cache
def _build_library(source: str) -> str:
    library = Path(_folder.name) / f"{Path(source).stem}.so"
    command = [
        needs.program("gcc", "gcc"),
        "-O1",
        "-shared",
        "-fPIC",
        "-o",
        library,
        TROUBLE / source,
    ]
    subprocess.run(command, check=True)
    Path(_folder.name).chmod(0o755)
    return str(library)


def preload(source: str) -> dict[str, str]:
    """The environment in which a program has this library before all others."""
    return {"LD_PRELOAD": _build_library(source)}
