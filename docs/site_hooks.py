"""What mkdocs.yml cannot say. Markdown files outside docs/ are pages of the site too,
below project/; links to any other file lead to the repository.
"""

import posixpath
import re
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import fleet.analysis

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "agent/README.md",
    "agent/contrib/README.md",
    "benchmarks/simulated.md",
    "notebooks/README.md",
)
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")
API = """# Python API

[Reading results](reading.md) has examples.

## fleet

::: fleet
    options: {{members: [open, measure]}}

## Results

What `fleet.open` and `fleet.measure` return.

::: fleet.analysis.results.Results
    options: {{filters: ["!^_"]}}

## fleet.analysis

{functions}

## fleet.analysis.report.plots

::: fleet.analysis.report.plots
    options: {{members: [heatmap, forest, run_dots, host_dots, ecdf, ladder, burst_histogram]}}

## fleet.errors

::: fleet.errors
    options: {{filters: ["!^[a-z_]"]}}
"""

FUNCTION = """
::: {of.__module__}.{of.__name__}
    options: {{show_root_heading: true, show_root_toc_entry: true}}
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/ and that of the API."""
    for path in OUTSIDE:
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, f"project/{path}", content=text))
    files.append(File.generated(config, "api.md", content=_write_api_page()))
    return files


def _write_api_page() -> str:
    """Return the page of the API. `fleet.analysis` publishes functions of modules below
    it, whose texts stand there.
    """
    published = [getattr(fleet.analysis, name) for name in fleet.analysis.__all__]
    functions = [FUNCTION.format(of=item) for item in published]
    return API.format(functions="\n".join(functions))


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Turn links between files of the repository into links between pages."""
    here = page.file.src_uri
    file = here.removeprefix("project/") if _is_outside(here) else f"docs/{here}"

    def lead_to_page(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(file), match[1]))
        return _link(target, posixpath.dirname(here))

    return LINK.sub(lead_to_page, markdown)


def _is_outside(page: str) -> bool:
    return page.startswith("project/")


def _link(target: str, folder: str) -> str:
    """Return what leads from a page in `folder` of the site to a file of the
    repository.
    """
    if target.startswith("docs/"):
        return posixpath.relpath(target.removeprefix("docs/"), folder or ".")
    if target in OUTSIDE:
        return posixpath.relpath(f"project/{target}", folder or ".")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    source = project["project"]["urls"]["Source"]
    return f"{source}/blob/main/{target}"
