"""Recipes of the docs run where nothing but what they install is installed."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import environments, needs
from tests.command import Fleet, wait_for
from tests.hosts import slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[1]
INSTALLS = re.compile(r"""pip install ["']?corefleet(?:\[(\w+)\])?["']?""")


def run(*command: str | Path, cwd: Path, path: str = os.environ["PATH"]) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={"PATH": path, "HOME": str(cwd)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        folder,
        cwd=ROOT,
    )
    (built,) = folder.iterdir()
    return built


def install(command: str, wheel: Path, folder: Path) -> Path:
    """Install in `folder` what a recipe's line of pip installs, in the locked releases;
    return its bin folder.
    """
    match = INSTALLS.search(command)
    assert match, command
    return environments.install_recipe(wheel, match[1] or "", folder)


def test_the_workflow_of_a_gallery_makes_its_site(
    wheel: Path, tmp_path: Path, made_lab: Path
) -> None:
    workflow = yaml.safe_load((ROOT / "docs/gallery.yaml").read_text())
    steps = workflow["jobs"]["site"]["steps"]
    first, *others = [step["run"] for step in steps if "run" in step]
    bin_folder = install(first, wheel, tmp_path / "environment")
    gallery = tmp_path / "gallery"
    (gallery / "files").mkdir(parents=True)
    with Fleet(made_lab) as fleet:
        file = gallery / "files/node7.parquet"
        given = ("--medians", "--keep", "hostname", "-o", str(file))
        assert fleet("export", "node7", *given).exit_code == 0
    for script in others:
        path = f"{bin_folder}:{os.environ['PATH']}"
        run("sh", "-e", "-c", script, cwd=gallery, path=path)
    assert "node7" in (gallery / "site/index.html").read_text()


def test_duckdb_reads_results_with_what_its_section_installs(
    wheel: Path, tmp_path: Path, made_lab: Path
) -> None:
    page = (ROOT / "docs/reading.md").read_text()
    section = page.partition("## DuckDB")[2].partition("\n## ")[0]
    bin_folder = install(section, wheel, tmp_path / "environment")
    lab = shutil.copytree(made_lab, tmp_path / "lab")
    plain = page.partition("## Plain pandas")[2].partition("\n## ")[0]
    for text in (plain, section):
        (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        run(bin_folder / "python", "-c", code, cwd=lab)


def test_a_cluster_of_dask_measures_with_what_its_section_installs(
    wheel: Path, tmp_path: Path
) -> None:
    page = (ROOT / "docs/scale.md").read_text().partition("## Workers of a Dask")[2]
    bin_folder = install(page, wheel, tmp_path / "environment")
    assert "fleet run servers --dask local:4" in page
    command = [bin_folder / "fleet", "run", "--dask", "local:1", "-b", "clock"]
    run(*command, "--rounds", "2", "--samples", "9", "--lock", "off", cwd=tmp_path)
    assert '"state": "complete"' in run(
        bin_folder / "fleet", "runs", "--json", cwd=tmp_path
    )


def write_health_check(folder: Path, lab: Path) -> Path:
    """Write the program of docs/comparing.md with the paths of this test, and let it
    reach the Slurm that $SLURM_CONF of its `scontrol` names.
    """
    page = (ROOT / "docs/comparing.md").read_text().partition("### Slurm's health")[2]
    script = page.partition("```sh\n")[2].partition("```")[0]
    for recipe, ours in (
        ("/opt/fleet/bin", str(folder)),
        ("HOME=/root", f"HOME={folder}"),
        ("/srv/fleet", str(lab / "results")),
    ):
        assert recipe in script
        script = script.replace(recipe, ours)
    (folder / "fleet").symlink_to(Path(sys.executable).with_name("fleet"))
    program = folder / "health.sh"
    program.write_text(script)
    program.chmod(0o755)
    return program


def test_slurm_drains_a_node_that_is_slower_and_no_other(
    tmp_path: Path, made_lab: Path
) -> None:
    """Two nodes named as machines of the lab, of which one became slower."""
    program = write_health_check(tmp_path, made_lab)
    settings = f"HealthCheckProgram={program}\nHealthCheckInterval=10\n"
    with slurm.allocate_nodes(("lucca", "milan"), settings) as job:
        scontrol = needs.program("scontrol", "slurm-client")
        client = tmp_path / "scontrol"
        client.write_text(
            f'#!/bin/sh\nSLURM_CONF={job["SLURM_CONF"]} exec {scontrol} "$@"\n'
        )
        client.chmod(0o755)

        def describe(node: str) -> str:
            return run(client, "show", "node", node, cwd=tmp_path)

        wait_for(lambda: "Reason=" in describe("lucca"))
        drained = describe("lucca")
        assert "+DRAIN" in drained
        assert "Reason=lucca: slower: cas/" in drained

        ours = ("NodeName=lucca", "State=DRAIN", "Reason=a fan")
        run(client, "update", *ours, cwd=tmp_path)
        for node in ("lucca", "milan"):
            run("env", f"SLURMD_NODENAME={node}", program, cwd=tmp_path)
        assert "Reason=a fan" in describe("lucca")
        assert "DRAIN" not in describe("milan")


def test_the_notebooks_run_with_what_their_page_installs(
    wheel: Path, tmp_path: Path
) -> None:
    page = (ROOT / "notebooks/README.md").read_text()
    bin_folder = install(page, wheel, tmp_path / "environment")
    copy = shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    for path in sorted(copy.glob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        code = [
            "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"
        ]
        run(bin_folder / "python", "-c", code[0], cwd=copy)
