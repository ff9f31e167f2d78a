"""How a worker ends when going on could lose or overwrite something."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from typing import NoReturn, ParamSpec, TypeVar

import structlog

log = structlog.get_logger(__name__)

EXIT_CODE = 70
"""Exit status of a worker that ended itself (EX_SOFTWARE of sysexits.h)."""

A = ParamSpec("A")
T = TypeVar("T")


LAST_WORDS = 2.0
"""Seconds for the log line of a process that ends itself: whoever should read it may be gone."""


def end_by(seconds: float, loop: asyncio.AbstractEventLoop | None = None) -> threading.Timer:
    """End this process with status 70 in so many seconds, whatever hangs, unless it has ended by then.

    With `loop` it tells what hangs there.
    """
    timer = threading.Timer(seconds, _overdue, [loop])
    timer.daemon = True
    timer.start()
    return timer


def _overdue(loop: asyncio.AbstractEventLoop | None) -> None:
    if loop is not None:
        end_by(LAST_WORDS)
        log.critical("a stop didn't end in time, ending the process", waiting=waiting_tasks(loop))
    os._exit(EXIT_CODE)


def end_process(error: BaseException) -> NoReturn:
    """End this process at once with status 70; nothing unfinished is acknowledged, another worker takes over.

    Not by an exception: Faust's own crash is slow, restarts agents first and goes on producing meanwhile.
    """
    end_by(LAST_WORDS)
    # formatted here: a renderer that prints local variables would log records, and so people's messages
    trace = "".join(traceback.format_exception(error))
    log.critical("unexpected failure, ending the process", error=type(error).__name__, exception=trace)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_CODE)


def waiting_tasks(loop: asyncio.AbstractEventLoop | None = None) -> list[str]:
    """Where each task of a loop (this one) waits, innermost call last (for the log of what hangs)."""
    found = []
    for task in asyncio.all_tasks(loop):
        calls: list[str] = []
        awaited: object = task.get_coro()
        while (frame := getattr(awaited, "cr_frame", None)) is not None and len(calls) < 12:
            calls.append(f"{getattr(awaited, '__qualname__', '?')}:{frame.f_lineno}")
            awaited = getattr(awaited, "cr_await", None)
        found.append(" > ".join(calls))
    return sorted(found)


def vital(function: Callable[A, Awaitable[T]]) -> Callable[A, Awaitable[T]]:
    """For loops that work beside the streams (timers, writers): an exception in them ends the process."""

    @functools.wraps(function)
    async def guarded(*args: A.args, **kwargs: A.kwargs) -> T:
        """The function, guarded."""
        try:
            return await function(*args, **kwargs)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            end_process(error)

    return guarded
