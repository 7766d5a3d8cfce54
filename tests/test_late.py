"""Threads that ask together wait for one answer."""

import threading
from concurrent.futures import ThreadPoolExecutor

from fleet.late import once


def test_threads_that_ask_together_get_one_answer_made_once() -> None:
    calls: list[str] = []
    together = threading.Barrier(8)

    @once
    def answer(question: str) -> list[str]:
        calls.append(question)
        threading.Event().wait(0.02)  # long enough for all to ask
        return [question]

    def ask(_: int) -> list[str]:
        together.wait()
        return answer("x")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert calls == ["x"]
    assert all(result is answers[0] for result in answers)
    assert answer("y") == ["y"]


def test_a_function_may_call_itself_with_other_arguments() -> None:
    @once
    def factorial(number: int) -> int:
        return number * factorial(number - 1) if number else 1

    assert factorial(5) == 120
