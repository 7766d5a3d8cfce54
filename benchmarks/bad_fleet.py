"""How a session of many hosts ends of which a quarter cannot be measured, and how long
it takes.

    .venv/bin/python benchmarks/bad_fleet.py [--hosts 200] [--parallel 32]

Of the hosts, sshds on loopback, a tenth refuses the connection; a twentieth each never
answers a SYN, hangs once we are in, is cut after 3,000 bytes
(tests/session/test_bad_fleet.py). Prints what fleet says in the end.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.scale import write_config  # noqa: E402
from tests.command import entry  # noqa: E402
from tests.hosts.sshd import host_maker, keygen  # noqa: E402
from tests.session.test_bad_fleet import JOB, LIMITS, bad_fleet  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--parallel", type=int, default=32)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fleet-bad-"))
    key = keygen(folder / "key")
    config = write_config(folder / "ssh_config", key, folder / "known_hosts")
    try:
        with (
            host_maker(folder, key) as make,
            bad_fleet(options.hosts, make, folder / "known_hosts") as hosts,
        ):
            inventory = folder / "inventory.yaml"
            inventory.write_text("hosts:\n" + "".join(map(entry, hosts)))
            words = [
                sys.executable,
                "-m",
                "fleet",
                "run",
                "-i",
                str(inventory),
                "-r",
                str(folder / "results"),
            ]
            words += [word for word in JOB if word != "--json"] + [
                *LIMITS,
                "--parallel",
                str(options.parallel),
            ]
            began = time.perf_counter()
            done = subprocess.run(
                words,
                cwd=ROOT,
                env={
                    **os.environ,
                    "FLEET_SSH_CONFIG": str(config),
                    "HOME": str(folder),
                },
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            took_s = time.perf_counter() - began
        print(done.stdout)
        print(
            f"exit code {done.returncode}; {took_s:.1f} s. A host that refuses costs"
            f" nothing, a silent one {LIMITS[1]} s."
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
