"""An error class per stage, with its exit code; a message names the host, what was tried, what to do."""

import os
import traceback
from typing import ClassVar

EXIT_SOME_FAILED = 1
EXIT_CHANGED = 20  # fleet compare --fail-on-change
EXIT_AT_ANOTHER_LEVEL = 22  # the same, where nothing changed otherwise
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
_LACK = ("failed to map segment", "cannot allocate memory", "can't start new thread", "launch worker thread")


class FleetError(Exception):
    """Something to act on: its text is the message, `stage` its word in tables, `exit_code` the program's."""

    stage: ClassVar[str] = "fleet"
    exit_code: ClassVar[int] = 1

    def __init_subclass__(cls, *, stage: str = "", exit_code: int = 0) -> None:
        cls.stage = stage or cls.stage
        cls.exit_code = exit_code or cls.exit_code


class UsageError(FleetError, stage="usage", exit_code=2):
    """An option, a plan or a selection that cannot be carried out."""


class InventoryError(UsageError, stage="inventory"):
    """The inventory cannot be read, or says something it must not; the message begins `file:line: field:`."""


class UnreachableError(FleetError, stage="connect", exit_code=3):
    """No session could be opened. passing: the host hung up before authentication, as a busy sshd does."""

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(message)
        self.passing = passing


class HostKeyError(FleetError, stage="host-key", exit_code=4):
    """The host's key is unknown or has changed."""


class AuthError(FleetError, stage="auth", exit_code=5):
    """The host refused every identity we were allowed to offer."""


class LinkError(FleetError, stage="link", exit_code=6):
    """An open session broke, or the host is silent; what it did is unknown. passing: a new one may do."""

    def __init__(self, message: str, *, passing: bool = True) -> None:
        super().__init__(message)
        self.passing = passing


class TimeLimitError(LinkError):
    """What was asked of a host did not end in time."""


class ProbeError(FleetError, stage="probe", exit_code=7):
    """The host answered, but not in a way we understand: no shell, unknown OS or architecture."""


class BuildError(FleetError, stage="build", exit_code=8):
    """No agent could be built for this host's target."""


class DeployError(FleetError, stage="deploy", exit_code=9):
    """The agent could not be put on the host, or what lies there is not what we put there."""


class AgentError(FleetError, stage="measure", exit_code=10):
    """The agent refused the plan, ended early, or sent something the wire does not allow."""


class RefusedError(AgentError):
    """The host cannot carry out this plan, and asked again could not either; nothing has been measured."""


class LockedError(FleetError, stage="lock", exit_code=12):
    """The machine, or the run, is in the hands of another fleet at this moment."""


class StoreError(FleetError, stage="store", exit_code=11):
    """The results root cannot be read or written; unless `lost`, what had arrived stays in the journal."""

    def __init__(self, message: str, *, lost: bool = False) -> None:
        super().__init__(message)
        self.lost = lost


class DataError(ValueError):
    """Data that `store.gate` refuses: damaged, or not what fleet writes. The message says what is wrong."""


class DamagedFileError(StoreError):
    """A file of the results was refused or cannot be read: the only error that costs a run its place.

    run_id: the run whose file it is, if it belongs to one.
    """

    def __init__(self, message: str, *, run_id: str | None = None) -> None:
        super().__init__(message)
        self.run_id = run_id


class MemoryLimitError(FleetError, stage="memory", exit_code=13):
    """Memory, or the number of threads, is too limited here; the message names the limit."""


class LibraryError(FleetError, stage="library", exit_code=14):
    """A library that fleet needs cannot be imported; the message names it."""


def is_lack_of_memory(err: BaseException) -> bool:
    """Whether this is how a library says that it got no memory or no thread."""
    return isinstance(err, MemoryError) or any(sign in str(err).lower() for sign in _LACK)


def lack_of_memory(err: BaseException, where: str = "") -> MemoryLimitError:
    """The error for the user: `where`, what the library said, and what to do."""
    reason = " ".join(str(err).split()).rstrip(".") or type(err).__name__
    return MemoryLimitError(
        f"{where}out of memory or threads: {reason}. Look at `ulimit -v`, `ulimit -u` and the limits of the "
        "container; free some memory, or measure fewer hosts at once (--parallel)."
    )


def explain(err: BaseException, where: str = "") -> FleetError | None:
    """Return the error for the user where the system or the installation failed; None for a bug in fleet.

    where: begins the message, as "rome: ".
    """
    if is_lack_of_memory(err):
        return lack_of_memory(err, where)
    if isinstance(err, ImportError) and (err.name or "").partition(".")[0] != "fleet":
        library = err.name or "a library"
        return LibraryError(
            f"{where}{library} cannot be imported: {err}. Install fleet again, with all it needs."
        )
    if isinstance(err, OSError) and err.errno is not None:
        path = f"{err.filename}: " if err.filename is not None else ""
        return StoreError(f"{where}{path}{os.strerror(err.errno)}.")
    return None


def describe_bug(err: BaseException) -> str:
    """Say in a line that this exception is a bug in fleet, and what to do."""
    text = " ".join(f"{type(err).__name__}: {err}".split()).rstrip(".: ")
    return f"a bug in fleet; please report it: {text}. FLEET_DEBUG=1 shows the traceback."


def print_traceback(err: BaseException | None) -> None:
    """Print the traceback of an exception to stderr if FLEET_DEBUG is set."""
    if err is not None and os.environ.get("FLEET_DEBUG"):
        traceback.print_exception(err)


class StoreWarning(UserWarning):
    """A file of the results that was left out, and why; the others are read."""
