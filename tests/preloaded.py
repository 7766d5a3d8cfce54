"""Runs `fleet` in forks of one process that has imported it: the second that imports
take is spent once.

Each is a process of its own, with its environment, folder and exit code. What Python
reads when it starts, such as PYTHONUTF8, and what a process inherits, such as the
umask, is that of the first call.
"""

import atexit
import ctypes
import functools
import gc
import importlib
import json
import multiprocessing
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import fleet
from fleet.__main__ import main
from tests.planting import plant
from tests.processes import until_we_end
from tests.shared import agents_cache, run_folder

ROOT = Path(__file__).parent.parent
LARGEST = 1 << 17  # bytes of a request


def run(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    files: Sequence[int],
    planted: tuple[str, str] | None = None,
) -> int:
    """Run `fleet` with the arguments and return its exit code, or minus the signal that
    ended it.

    environment: all of its variables. files: descriptors of its stdout and stderr.
    planted: see planting.py. It is killed if an exception ends the wait for it.
    """
    server = _server()
    request = json.dumps(
        [list(arguments), str(folder), dict(environment), planted]
    ).encode()
    socket.send_fds(server, [request], files)
    pid = int(server.recv(LARGEST))
    try:
        return int(server.recv(LARGEST))
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        server.recv(LARGEST)
        raise


@functools.cache
def _server() -> socket.socket:
    """Start the process to fork and return the socket it listens to."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [
                *until_we_end(),
                sys.executable,
                "-m",
                "tests.preloaded",
                str(theirs.fileno()),
            ],
            cwd=ROOT,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(ROOT),
                "HOME": str(
                    run_folder()
                ),  # matplotlib reads its settings and its list of fonts there
                "XDG_CACHE_HOME": str(agents_cache()),
            },
            stdin=subprocess.DEVNULL,
            # no terminal, so that what is printed is not buffered by lines
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    atexit.register(process.wait)
    atexit.register(ours.close)  # runs first and ends the process
    return ours


def _serve(requests: socket.socket) -> None:
    """Run `fleet` in a fork for each request; report the fork's process id, and its
    exit code.
    """
    forks = multiprocessing.get_context("fork")
    while True:
        request, files, _, _ = socket.recv_fds(requests, LARGEST, 2)
        if not request:
            return
        process = forks.Process(target=_run, args=(*json.loads(request), files))
        with (
            warnings.catch_warnings()
        ):  # of the thread of pyarrow's allocator, which can be forked
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        for file in files:
            os.close(file)
        requests.send(str(process.pid).encode())
        process.join()
        requests.send(str(process.exitcode).encode())


def _run(
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    planted: Sequence[str] | None,
    files: list[int],
) -> None:
    """Make this process what a new interpreter would be, and run `fleet`."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, as until_we_end()
    os.setsid()
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.update(environment)
    sys.argv = [str(ROOT / "fleet/__main__.py"), *arguments]
    if planted:
        plant(*planted)
    main()


def _import_all() -> None:
    """Import what commands import, which includes the large packages."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as fleet.__main__ does
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    for module in pkgutil.walk_packages(fleet.__path__, "fleet."):
        importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _import_all()
    _serve(socket.socket(fileno=int(sys.argv[1])))
