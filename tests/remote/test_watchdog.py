import threading
import time

import pytest

from fleet.remote.ssh.connection import Watchdog


def test_limits_fire_when_they_are_due_and_lifted_ones_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of the test's own: the thread looks at it again after as long as is left by it."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    watchdog, early, lifted, late = Watchdog(), threading.Event(), threading.Event(), threading.Event()
    watchdog.after(0.03, late.set)
    watchdog.after(0.01, early.set)
    watchdog.after(0.02, lifted.set)()
    now = 0.01
    early.wait()
    assert not late.is_set()
    now = 0.03
    late.wait()
    assert not lifted.is_set()


def test_a_limit_set_after_a_pause_fires_too() -> None:
    watchdog, first, second = Watchdog(), threading.Event(), threading.Event()
    watchdog.after(0, first.set)
    first.wait()
    time.sleep(0.05)
    watchdog.after(0.01, second.set)
    second.wait()


def test_a_function_that_takes_long_holds_no_other_up() -> None:
    watchdog, release, other = Watchdog(), threading.Event(), threading.Event()
    watchdog.after(0, lambda: release.wait() and None)
    watchdog.after(0.02, other.set)
    other.wait()
    release.set()


def test_all_limits_share_one_thread() -> None:
    before = set(threading.enumerate())
    watchdog = Watchdog()
    limits = [watchdog.after(60, lambda: None) for _ in range(50)]
    assert len(set(threading.enumerate()) - before) == 1
    for limit in limits:
        limit()
