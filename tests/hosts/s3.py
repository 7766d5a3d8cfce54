"""A real S3 server on loopback: `rclone serve s3` in front of a folder, with keys of
the test's own.

It checks signatures, takes multipart uploads and shows an object only once it is whole.
`python -m tests.hosts.s3` installs it into the tests' cache, apart from the project's
environment.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests import needs
from tests.command import wait_for
from tests.processes import until_we_end

BUCKET = "results"
KEY = "AKIDTESTS"
SECRET = "not-to-be-printed-anywhere"
_FOLDER = (
    Path(os.environ.get("FLEET_TEST_CACHE") or Path.home() / ".cache" / "fleet-tests")
    / "s3"
)


def install() -> Path:
    """Install the server, unless it is there; return its program."""
    program = _FOLDER / "bin" / "rclone"
    if not program.exists():
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "--no-deps",
        ]
        requirements = [
            "--require-hashes",
            "-r",
            str(Path(__file__).with_suffix(".txt")),
        ]
        subprocess.run([*pip, *requirements, "--target", str(_FOLDER)], check=True)
    return program


class ObjectStore:
    """The server and its one bucket; `stop` kills it, `start` brings it back at the
    same address.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program = _FOLDER / "bin" / "rclone"
        if not self._program.exists():
            needs.missing("no S3 server: python -m tests.hosts.s3")
        (folder / BUCKET).mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment that a client of this server needs; the rest of AWS's
        is absent.
        """
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def objects(self) -> list[str]:
        """The keys in the bucket, sorted, as the server's disk has them; unfinished
        uploads are none.
        """
        bucket = self._folder / BUCKET
        files = (path for path in bucket.rglob("*") if path.is_file())
        return sorted(
            str(path.relative_to(bucket))
            for path in files
            if not path.name.startswith(".")
        )

    def start(self) -> None:
        """Start serving and wait for the first answer."""
        self._process = subprocess.Popen(
            [
                *until_we_end(),
                self._program,
                "serve",
                "s3",
                "--addr",
                f"127.0.0.1:{self.port}",
                self._folder,
            ],
            env={"RCLONE_CONFIG": os.devnull, "RCLONE_AUTH_KEY": f'"{KEY},{SECRET}"'},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self._answers)

    def stop(self) -> None:
        """Kill the server, whatever it is doing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


if __name__ == "__main__":
    sys.stdout.write(f"{install()}\n")
