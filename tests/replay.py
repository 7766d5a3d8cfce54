"""The single test double: a connection that answers from a recording and remembers what
it was asked.
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from fleet.remote.output import Completed, Stream

Answer = Completed | bytes | Exception


@dataclass
class Replay:
    """Answer `run` by the key in the command: bytes are stdout; exceptions are raised.
    calls: all of them.
    """

    answers: dict[str, Answer]
    host_name: str = "recorded"
    notes: tuple[str, ...] = ()
    banner: str = ""
    calls: list[tuple[str, bytes]] = field(default_factory=list)
    open_stream: Callable[[str], Stream] | None = None

    def run(
        self, command: str, *, stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Completed:
        self.calls.append((command, stdin))
        for part, answer in self.answers.items():
            if part in command:
                if isinstance(answer, Exception):
                    raise answer
                return (
                    Completed(0, answer, b"") if isinstance(answer, bytes) else answer
                )
        raise AssertionError(f"nothing was recorded for {command!r}")

    def stream(
        self,
        command: str,
        *,
        idle_timeout_s: float,
        limit_s: float = math.inf,
        stdin: bytes = b"",
    ) -> Stream:
        assert self.open_stream, f"no stream was recorded for {command!r}"
        return self.open_stream(command)

    def put(
        self, data: bytes, path: str, *, mode: int = 0o600, timeout_s: float = 60.0
    ) -> Completed:
        return self.run(f"put {path} {mode:o}", stdin=data)

    def use_minimal_tools(self, path: str) -> None:
        self.calls.append(("use minimal tools", path.encode()))

    def sftp(self, timeout_s: float) -> nullcontext[None]:
        """There is none."""
        return nullcontext()

    def close(self) -> None:
        """Nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
