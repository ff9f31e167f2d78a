"""A progress bar for long commands, and how Ctrl-C ends them: after the page that is under way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

INTERRUPTED = 130
"""Exit code after Ctrl-C."""


@contextmanager
def counting(total: int | None, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A bar on standard error that is told how many are done; none where nobody looks at a terminal.

    Args:
        total: how many there are; None: unknown.
        quiet: show nothing.
    """
    errors = Console(stderr=True, highlight=False)
    bar = Progress(
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.fields[rate]:,.0f}/s"),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=quiet or not errors.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=total, rate=0.0)

        def watch(done: int) -> None:
            spent = bar.tasks[0].elapsed or 0.0
            bar.update(task, completed=done, rate=done / spent if spent else 0.0)

        yield watch


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set; a second one ends the process at once."""
    stop = threading.Event()

    def asked(number: int, frame: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
