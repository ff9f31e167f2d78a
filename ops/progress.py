"""How a start is shown: a live checklist on a terminal, plain lines elsewhere, nothing under `--json`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ops.given import shown
from ops.supervision.run_file import RunFile, UnitView

_MARKS = {
    "ready": ("✓", "green"),
    "done": ("✓", "green"),
    "failed": ("✗", "red"),
    "restarting": ("↻", "yellow"),
    "waiting": ("…", "yellow"),
    "stopped": ("■", "dim"),
    "blocked": ("·", "dim"),
}
_REASON_WIDTH = 70
_WORTH_A_LINE = frozenset({"ready", "done", "failed", "restarting", "waiting", "stopped"})


class Progress(Protocol):
    """Where changes of the stack are shown."""

    def show(self, views: Sequence[UnitView]) -> None:
        """The units as they are now."""

    def say(self, text: str) -> None:
        """A line for people."""

    def ready(self, run: RunFile, home: Path) -> None:
        """The start is over: say where everything listens; from now on only what changes is shown."""

    def close(self) -> None:
        """Nothing changes any more."""


class JsonLine:
    """One JSON object when all is ready, nothing else."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, views: Sequence[UnitView]) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def ready(self, run: RunFile, home: Path) -> None:
        """The run as JSON in one line."""
        self._console.out(run_as_json(run, home), highlight=False)

    def close(self) -> None:
        """Nothing."""


class PlainLines:
    """One line for each change that matters."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._seen: dict[str, tuple[str, str]] = {}

    def show(self, views: Sequence[UnitView]) -> None:
        """A line for each unit that came to another state worth one."""
        for view in views:
            changed = self._seen.get(view.name) != (view.state, view.reason)
            if changed and view.state in _WORTH_A_LINE and not (view.aside and view.state == "done"):
                self.say(line_of(view))
        self.note(views)

    def note(self, views: Sequence[UnitView]) -> None:
        """Take the units' states as shown."""
        self._seen = {view.name: (view.state, view.reason) for view in views}

    def say(self, text: str) -> None:
        """The text as it is."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def ready(self, run: RunFile, home: Path) -> None:
        """Where everything listens."""
        for line in summary(run, home):
            self.say(line)

    def close(self) -> None:
        """Lines need no end."""


class LiveChecklist:
    """A checklist with running times, redrawn in place; after the start it stands and lines follow."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._views: Sequence[UnitView] = ()
        self._lines = PlainLines(console)
        self._live = Live(console=console, refresh_per_second=8, get_renderable=self._draw)
        self._live.start()
        self._settled = False

    def show(self, views: Sequence[UnitView]) -> None:
        """Redraw, or after the start print what changed."""
        if self._settled:
            self._lines.show(views)
            return
        self._views = views

    def say(self, text: str) -> None:
        """The text above the checklist, or below it after the start."""
        self._lines.say(text)

    def ready(self, run: RunFile, home: Path) -> None:
        """Leave the checklist as it is now, and say where everything listens."""
        self.close()
        self._lines.ready(run, home)

    def close(self) -> None:
        """Leave the checklist as it is now."""
        if not self._settled:
            self._settled = True
            self._live.stop()
            self._lines.note(self._views)

    def _draw(self) -> RenderableType:
        return checklist(self._views, time.time())


def checklist(views: Sequence[UnitView], now: float) -> RenderableType:
    """All units with mark, state, time and where they listen or why they wait; `now` in Unix seconds."""
    table = Table.grid(padding=(0, 2))
    for view in views:
        if view.aside and view.state not in _WORTH_A_LINE:
            continue
        mark, style = _MARKS.get(view.state, ("", ""))
        lead: RenderableType = Text(mark, style) if mark else Spinner("dots", style="cyan")
        took = view.took_s if view.took_s is not None else max(0.0, now - view.since)
        told = Text(view.listens or _short(view.reason), "dim" if view.listens else style)
        shown = "" if view.state in {"blocked", "stopped"} else f"{took:.1f} s"
        table.add_row(lead, view.name, Text(view.state, style), Text(shown, justify="right"), told)
    return Group(table)


def summary(run: RunFile, home: Path) -> list[str]:
    """What somebody who just started the stack wants to know."""
    took = f" in {run.ready_after_s:.1f} s" if run.ready_after_s is not None else ""
    return [
        f"Ready{took}.",
        f"  Kafka     {run.kafka}",
        f"  Postgres  {shown(run.database_url)}",
        f"  Data      {home}",
        "`rajada status` shows what runs, `rajada logs NAME -f` follows a log, `rajada down` stops all.",
        *([run.hint] if run.hint else []),
    ]


def run_as_json(
    run: RunFile,
    home: Path,
    counters: Mapping[str, Mapping[str, int | str]] | None = None,
    trouble: str = "",
) -> str:
    """The run for programs: state, where the servers listen, times, every unit, what they have counted.

    `trouble` is what stands in the way of all of them: a full disk.
    """
    told = {
        "state": run.state,
        "home": str(home),
        "supervisor_pid": run.supervisor_pid,
        "kafka": run.kafka,
        "database_url": run.database_url,
        "started_at": run.started_at,
        "ready_after_s": run.ready_after_s,
        "units": run.units,
        "counters": counters or {},
        "hint": run.hint,
        "error": run.error,
        "trouble": trouble,
    }
    return msgspec.json.encode(told).decode()


def line_of(view: UnitView) -> str:
    """One unit in one line."""
    took = f"{view.took_s:.1f} s" if view.took_s is not None and view.state in {"ready", "done"} else ""
    told = view.listens or _short(view.reason)
    return f"{view.name:<11} {view.state:<10} {took:>7}  {told}".rstrip()


def _short(reason: str) -> str:
    """A reason as far as it fits beside its unit; errors are told in full at the end."""
    line = reason.partition("\n")[0]
    return line if len(line) <= _REASON_WIDTH else f"{line[: _REASON_WIDTH - 1]}…"


def progress_for(console: Console, *, plain: bool = False) -> Progress:
    """A live checklist if the console is a terminal, else lines."""
    return PlainLines(console) if plain or not console.is_terminal else LiveChecklist(console)
