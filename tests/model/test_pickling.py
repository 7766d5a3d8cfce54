"""What a program may keep of fleet can be pickled, for another process too, and
copied.
"""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fleet
from fleet.model import Host, freeze
from tests import simulated

HOST = Host("a", "192.0.2.1", labels=freeze({"rack": "b2"}))
COPIES: dict[str, Callable[[object], object]] = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("name", COPIES)
def test_a_host_and_results_are_copied_whole(name: str, tmp_path: Path) -> None:
    simulated.publish(tmp_path, simulated.desktop(), 0, rounds=3)
    simulated.publish(tmp_path, simulated.laptop(), 1, rounds=3)
    last = fleet.open(tmp_path).runs("laptop")["run_id"]
    results = fleet.Results(tmp_path, list(last), {"desktop": "it was off"})
    assert COPIES[name](HOST) == HOST
    copied = COPIES[name](results)
    assert isinstance(copied, fleet.Results)
    assert copied.failures == {"desktop": "it was off"}
    assert list(copied.runs()["run_id"]) == list(last)


def test_another_process_reads_a_pickled_host() -> None:
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).labels['rack'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(HOST),
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"b2\n"
