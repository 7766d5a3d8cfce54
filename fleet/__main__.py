"""`python -m fleet` and the `fleet` command. Started processes import it and run
nothing.
"""

import gc
import os
import sys

from fleet.errors import (
    EXIT_BUG,
    EXIT_INTERRUPTED,
    describe_bug,
    explain,
    print_traceback_if_debugging,
)


def main() -> None:
    """Run the program. Ctrl-C while it is still being loaded ends it without a
    traceback as well.
    """
    if sys.platform == "win32":
        sys.exit(
            "fleet: the controller runs on Linux and macOS. On Windows run it in WSL."
        )
    _set_environment()
    gc.set_threshold(100_000)  # nearly all that is loaded stays: docs/decisions.md
    try:
        from fleet.cli import main as program  # noqa: PLC0415  takes a while

        program()
    except KeyboardInterrupt:
        sys.stderr.write("fleet: interrupted\n")
        sys.exit(EXIT_INTERRUPTED)
    # The program reports its errors itself. So this error is of its start, or a bug in
    # how it reports.
    except Exception as err:
        # the program's own stderr, which escapes what it prints, may be broken as well
        sys.stderr = sys.__stderr__
        print_traceback_if_debugging(err)
        cause = explain(err)
        message = str(cause) if cause else describe_bug(err)
        escaped = ascii(message)[1:-1]
        os.write(2, f"fleet: {escaped}\n".encode())
        sys.exit(cause.exit_code if cause else EXIT_BUG)
    finally:
        # Python then collects no garbage at exit, which would take a sixth of the time
        # of `fleet show` (benchmarks/startup.py --settings)
        gc.freeze()


def _set_environment() -> None:
    """Set what the libraries that fleet loads read from the environment."""
    has_no_home = os.path.expanduser("~") == "~"  # noqa: PTH111  a container's user without a passwd entry
    if has_no_home:
        os.environ["HOME"] = "/"
    # numpy would start threads that nothing here uses
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # other allocators keep memory for each thread that used them
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


if __name__ == "__main__":
    main()
