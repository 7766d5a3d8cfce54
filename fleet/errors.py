"""One error class per stage, with its exit code. A message names the host, the attempt
and the remedy.
"""

import os
import sys
import traceback
from pathlib import Path
from typing import ClassVar

EXIT_SOME_FAILED = 1
EXIT_CHANGED = 20  # fleet compare --fail-on-change
EXIT_WORSE = 21  # fleet accept
EXIT_AT_ANOTHER_LEVEL = 22  # fleet compare --fail-on-change, if levels alone differ
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
EXIT_READER_LEFT = 141  # as of a program that SIGPIPE ends
_EXTRAS = {  # of pyproject.toml, by the library that a command lacks without it
    **dict.fromkeys(("jinja2", "markupsafe", "matplotlib", "PIL"), "report"),
    "scipy": "compare",
}
_LACK = (
    "failed to map segment",
    "cannot allocate memory",
    "can't start new thread",
    "launch worker thread",
)


class FleetError(Exception):
    """An error that the user can act on. stage: the failed stage or the kind of error,
    as tables show it.
    """

    stage: ClassVar[str] = "fleet"
    exit_code: ClassVar[int] = 1
    reason = ""  # in a few words, for lists of hosts; "" if the message begins with it

    def __init_subclass__(cls, *, stage: str = "", exit_code: int = 0) -> None:
        cls.stage = stage or cls.stage
        cls.exit_code = exit_code or cls.exit_code


class UsageError(FleetError, stage="usage", exit_code=2):
    """An option, a plan or a selection that cannot be carried out."""


class InventoryError(UsageError, stage="inventory"):
    """The inventory cannot be read or is wrong; the message begins `file:line:
    field:`.
    """


class UnreachableError(FleetError, stage="connect", exit_code=3):
    """No connection could be opened. is_transient: a retry may help, as the host hung
    up before authentication.
    """

    def __init__(
        self, message: str, *, is_transient: bool = False, reason: str = ""
    ) -> None:
        super().__init__(message)
        self.is_transient = is_transient
        self.reason = reason


class HostKeyError(FleetError, stage="host-key", exit_code=4):
    """The host's key is unknown or has changed."""


class AuthError(FleetError, stage="auth", exit_code=5):
    """The host refused every identity that was offered."""


class LinkError(FleetError, stage="link", exit_code=6):
    """A connection broke, or the host is silent. is_transient: a new connection may
    help.
    """

    def __init__(self, message: str, *, is_transient: bool = True) -> None:
        super().__init__(message)
        self.is_transient = is_transient


class TimeLimitError(LinkError):
    """A command on a host did not end in time."""


class ProbeError(FleetError, stage="probe", exit_code=7):
    """The host's answer cannot be used: no shell, unknown OS or architecture."""


class BuildError(FleetError, stage="build", exit_code=8):
    """No agent could be built for this host's target."""


class DeployError(FleetError, stage="deploy", exit_code=9):
    """The agent could not be put on the host, or was changed there."""


class AgentError(FleetError, stage="measure", exit_code=10):
    """The agent refused the plan, ended early, or broke the wire's rules."""


class RefusedError(AgentError):
    """The host cannot carry out this plan, now or later; nothing was measured."""


class LockedError(FleetError, stage="lock", exit_code=12):
    """Another fleet is using the machine or the run."""


class StoreError(FleetError, stage="store", exit_code=11):
    """The results root cannot be read or written. lost: what had arrived is not in the
    journal either.
    """

    def __init__(self, message: str, *, lost: bool = False) -> None:
        super().__init__(message)
        self.lost = lost


class DataError(ValueError):
    """Data that is refused, since it is damaged or not fleet's."""


class DamagedFileError(StoreError):
    """A file of the results was refused or cannot be read; readers leave its run
    out.
    """

    def __init__(self, message: str, *, run_id: str | None = None) -> None:
        super().__init__(message)
        self.run_id = run_id  # None if the file belongs to no run


class MemoryLimitError(FleetError, stage="memory", exit_code=13):
    """Memory or threads are exhausted here."""


class LibraryError(FleetError, stage="library", exit_code=14):
    """A library that fleet needs cannot be imported."""


class NotReadyError(FleetError, stage="wait", exit_code=15):
    """The host does not meet the conditions that it is required to meet."""


class PreparationError(FleetError, stage="before", exit_code=16):
    """A command of the inventory that prepares the host failed."""


def is_lack_of_memory(err: BaseException) -> bool:
    """Report whether a library raised this because it got no memory or no thread."""
    if isinstance(err, MemoryError):
        return True
    message = str(err).lower()
    return any(sign in message for sign in _LACK)


def explain(err: BaseException, where: str = "") -> FleetError | None:
    """Return the error to show for a failed system or installation; None for a bug.
    where: message prefix.
    """
    if is_lack_of_memory(err):
        reason = " ".join(str(err).split()).rstrip(".") or type(err).__name__
        return MemoryLimitError(
            f"{where}out of memory or threads: {reason}. Look at `ulimit -v`, `ulimit"
            " -u` and the limits of the container; free some memory, or measure fewer"
            " hosts at once (--parallel)."
        )
    if isinstance(err, ImportError) and _get_package(err.name) != "fleet":
        library = err.name or "a library"
        advice = _advise_installing(_get_package(err.name))
        return LibraryError(f"{where}{library} cannot be imported: {err}. {advice}")
    if isinstance(err, OSError) and err.errno is not None:
        path = f"{err.filename}: " if err.filename is not None else ""
        return StoreError(f"{where}{path}{os.strerror(err.errno)}.")
    if isinstance(err, OSError) and "writable" in str(err):
        return StoreError(f"{where}{err}")  # matplotlib's, about its cache
    return None


def _get_package(module: str | None) -> str:
    """Return the package of a module: "PIL.Image" -> "PIL"; "" if it is unknown."""
    return (module or "").partition(".")[0]


def _advise_installing(package: str) -> str:
    """Return a sentence on how to install a library that fleet lacks."""
    environment = Path(sys.prefix)
    # In an environment of ours, make leaves a file `measures` once it has installed
    # what measuring needs, and a file `complete` once it has installed the rest.
    can_measure = (environment / "measures").exists()
    if can_measure and not (environment / "complete").exists():
        return f"`make setup` in {environment.parent} installs it."
    extra = _EXTRAS.get(package)
    if extra:
        return f"Install what this command needs: pip install 'corefleet[{extra}]'."
    return "Install fleet again, with all it needs."


def describe_bug(err: BaseException) -> str:
    """Return a line that names this exception a bug in fleet and says how to
    report it.
    """
    words = f"{type(err).__name__}: {err}".split()
    text = " ".join(words).rstrip(".: ")
    return (
        f"a bug in fleet; please report it: {text}. FLEET_DEBUG=1 shows the traceback."
    )


def print_traceback_if_debugging(err: BaseException | None) -> None:
    """Print the traceback of an exception to stderr if FLEET_DEBUG is set."""
    if err is not None and os.environ.get("FLEET_DEBUG"):
        traceback.print_exception(err)


class StoreWarning(UserWarning):
    """Something was left out, such as a damaged file of the results; the rest is
    shown.
    """
