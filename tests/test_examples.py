"""Each Python block of the docs runs, in the lab of `fleet demo` or where its own test
says.
"""

import re
import shutil
import warnings
from pathlib import Path

import matplotlib as mpl
import pytest

from tests.command import ROOT

# headings of blocks that a test elsewhere runs, on roots and hosts of its own
ELSEWHERE = {
    ("docs/reading.md", "Measuring from Python"): "session/test_measure.py",
    ("docs/reading.md", "Plain pandas"): "analysis/test_engines.py",
    ("docs/reading.md", "With fleet's functions"): "analysis/test_engines.py",
    ("docs/reading.md", "DuckDB"): "analysis/test_engines.py",
    ("docs/reading.md", "Spark"): "analysis/test_engines.py",
    ("docs/scale.md", "Results in an object store"): "store/test_object_store.py",
}
# names in the pages, and machines of the lab in their place
NAMES = {
    '"a"': '"rome"',
    '"b"': '"milan"',
    '"kernel=6.12"': '"kernel=old"',
    '"node*"': '"node[1-9]"',
    '"rpi5"': '"siena"',
    '"samples.parquet"': 'next(__import__("pathlib").Path("results").rglob("samples.parquet"))',
}


def list_blocks() -> list[tuple[str, str, str]]:
    """List each block of Python of the pages: page, heading and code."""
    blocks = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        page = path.relative_to(ROOT).as_posix()
        for section in re.split(r"^##+ ", path.read_text(), flags=re.MULTILINE):
            heading = section.partition("\n")[0]
            codes = re.findall(
                r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL
            )
            blocks += [(page, heading, code) for code in codes]
    return blocks


def test_what_runs_elsewhere_is_there() -> None:
    named = {(page, heading) for page, heading, _ in list_blocks()}
    assert named >= set(ELSEWHERE)
    for (page, _), file in ELSEWHERE.items():
        assert page.partition("/")[2] in (ROOT / "tests" / file).read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    ("page", "heading", "code"),
    [block for block in list_blocks() if block[:2] not in ELSEWHERE],
    ids=lambda text: "" if "\n" in text else text,
)
def test_a_block_runs_in_the_lab(
    page: str,
    heading: str,
    code: str,
    tmp_path: Path,
    made_lab: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mpl.use("Agg")
    shutil.copytree(made_lab, tmp_path / "lab")
    monkeypatch.chdir(tmp_path / "lab")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, ours in NAMES.items():
        code = code.replace(name, ours)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(code, f"{page}: {heading}", "exec"), {})
