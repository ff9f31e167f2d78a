"""A call of Kafka's client that never returns ends the session, and no more than that."""

import threading
import time

import pytest

from streams.delays.forwarder import SessionOver
from streams.delays.outlet import within


def test_a_call_that_never_returns_ends_the_session_in_time() -> None:
    never = threading.Event()
    began = time.monotonic()
    with pytest.raises(SessionOver, match="did not return"):
        within(0.05, lambda: never.wait() and None)
    assert time.monotonic() - began < 2
    never.set()


def test_what_a_call_raises_is_raised_and_its_end_is_waited_for() -> None:
    ended: list[str] = []

    def refuse() -> None:
        raise BufferError("full")

    within(5, lambda: ended.append("done"))
    assert ended == ["done"]
    with pytest.raises(BufferError, match="full"):
        within(5, refuse)
