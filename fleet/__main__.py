"""`python -m fleet` and the `fleet` command. Started processes import it and run nothing."""

import gc
import os
import sys
from contextlib import suppress

from fleet import late
from fleet.errors import EXIT_INTERRUPTED

_MMAP_THRESHOLD = -3  # of mallopt(3)


def main() -> None:
    """Run the program. Ctrl-C while it is still being loaded ends it without a traceback as well."""
    gc.set_threshold(100_000)  # nearly all objects stay: of modules, of thousands of runs, of a session
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that nothing here uses
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # others keep memory for each of our threads
    late.before_arrow.append(_give_back_freed_arrays)
    try:
        from fleet.cli import main as program  # noqa: PLC0415  takes a while

        program()
    except KeyboardInterrupt:
        sys.stderr.write("fleet: interrupted\n")
        sys.exit(EXIT_INTERRUPTED)
    finally:
        gc.freeze()  # to look for circles in what goes with the process takes a fifth of a command


def _give_back_freed_arrays() -> None:
    import ctypes  # noqa: PLC0415  numpy loads it anyway, a command without arrays does not

    with suppress(OSError, AttributeError, TypeError):  # glibc's first value; not said, it grows to 32 MiB
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 128 << 10)  # and freed arrays leave holes below it


if __name__ == "__main__":
    main()
