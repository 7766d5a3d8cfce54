import threading
import time

from fleet.remote.watchdog import Watchdog


def test_limits_fire_in_order_of_time_and_lifted_ones_not_at_all() -> None:
    watchdog, fired, last = Watchdog(), list[str](), threading.Event()
    watchdog.after(0.3, lambda: (fired.append("late"), last.set()))
    watchdog.after(0.05, lambda: fired.append("early"))
    watchdog.after(0.1, lambda: fired.append("lifted")).lift()
    assert last.wait(20)
    assert fired == ["early", "late"]


def test_a_limit_set_after_a_pause_fires_too() -> None:
    watchdog, first, second = Watchdog(), threading.Event(), threading.Event()
    watchdog.after(0, first.set)
    assert first.wait(20)
    time.sleep(0.05)
    watchdog.after(0.01, second.set)
    assert second.wait(20)


def test_a_function_that_takes_long_holds_no_other_up() -> None:
    watchdog, release, other = Watchdog(), threading.Event(), threading.Event()
    watchdog.after(0, lambda: release.wait(20) and None)
    watchdog.after(0.02, other.set)
    assert other.wait(20)
    release.set()


def test_all_limits_share_one_thread() -> None:
    before = set(threading.enumerate())
    watchdog = Watchdog()
    limits = [watchdog.after(60, lambda: None) for _ in range(50)]
    assert len(set(threading.enumerate()) - before) == 1
    for limit in limits:
        limit.lift()
