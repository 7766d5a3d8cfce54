"""`make describe`: writes what the agent says of its benchmarks and options, and the
variants of every architecture.

What is compiled here knows only its own architecture's variants; those of all are read
off the sources.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from fleet.model import ARCHES
from tests.native.build import AGENT, build, list_native_files

ROOT = Path(__file__).parents[2]


def describe() -> dict[Path, str]:
    """Return the text that each generated file should hold."""
    printed = subprocess.run(
        [build(), "--describe"], capture_output=True, check=True
    ).stdout
    description = json.loads(printed)
    benchmarks: list[dict[str, Any]] = description["benchmarks"]
    for benchmark in benchmarks:
        benchmark["variants"] = variants(benchmark["name"])
    options = {key: description[key] for key in ("options", "rules", "presets")}
    return {
        ROOT / "fleet/model/benchmarks.json": json.dumps(benchmarks, indent=1) + "\n",
        ROOT / "fleet/plan/options.json": json.dumps(options, indent=1) + "\n",
    }


def variants(benchmark: str) -> dict[str, list[str]]:
    """Return the variants of each architecture, best first, and under "any" those that
    all have.
    """
    own = f"bench/{benchmark}.c"
    tables = re.findall(
        r"\.(?:native|generic)_variants = (\w+)", (AGENT / own).read_text()
    )
    names_by_arch = {
        arch: _named_in(list_native_files(arch), tables) for arch in ARCHES
    }
    names_by_arch["any"] = _named_in(["native/generic.c", own], tables)
    return names_by_arch if any(names_by_arch.values()) else {}


def _named_in(sources: list[str], tables: list[str]) -> list[str]:
    """List the names in tables of variants, in these files and in the header that those
    of x86 share.
    """
    texts = [(AGENT / path).read_text() for path in sources]
    texts += [
        (AGENT / "native/x86.h").read_text() for text in texts if '"x86.h"' in text
    ]
    rows = [
        match[1]
        for table in tables
        for text in texts
        if (match := re.search(rf"VARIANTS\({table},(.*?)\);", text, re.DOTALL))
    ]
    return list(
        dict.fromkeys(
            name for row in rows for name in re.findall(r'\.name = "([\w-]+)"', row)
        )
    )


if __name__ == "__main__":
    for path, text in describe().items():
        path.write_text(text)
