"""A story as a timeline on the terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ops.moments import clock, day, local, span
from ops.why.now import Now
from ops.why.step import Level, Step
from ops.why.story import Story

_MARKS: Final[dict[Level, tuple[str, str]]] = {
    "begin": ("○", "cyan"),
    "info": ("●", ""),
    "good": ("●", "green"),
    "stop": ("■", "yellow"),
    "warn": ("▲", "yellow"),
    "dead": ("✗", "red"),
}
_GAP_MS: Final = 1_000
"""Between two steps further apart than this, how long nothing happened is told."""
_SHORT: Final = 8
"""Characters of an id, where it only has to be told from its neighbours."""


def timeline(story: Story) -> RenderableType:
    """The story for people: who, what happened when, where it is now."""
    parts: list[RenderableType] = [_head(story)]
    if story.steps:
        parts.append(_steps(story))
    parts += [_now(now) for now in story.now]
    parts += [Text(note, "yellow") for note in story.notes]
    return Group(*parts)


def unknown(story: Story) -> RenderableType:
    """That nothing is known, and where it was looked for."""
    lines = [
        Text(f"Nothing is known of {story.asked}.", "bold"),
        Text("Looked at:"),
        *(Text(f"  {place}", "dim") for place in story.looked_at),
        *(Text(note, "yellow") for note in story.notes),
        Text(
            "It takes the id of an event, a message, a job or a contact; what happened is kept for 30 days."
        ),
    ]
    return Group(*lines)


def as_json(story: Story) -> str:
    """The story for programs; every moment as Unix ms and as local ISO time."""
    told = msgspec.to_builtins(story)
    for one in [*told["steps"], *told["now"]]:
        if one["at_ms"] is not None:
            one["at"] = local(one["at_ms"]).isoformat(timespec="milliseconds")
    return msgspec.json.encode(told).decode()


def _head(story: Story) -> RenderableType:
    title = Text.assemble((f"{(story.kind or 'id').capitalize()} ", "bold"), (story.asked, "bold"))
    table = Table.grid(padding=(0, 2))
    for name, value in story.ids.items():
        if value != story.asked:
            table.add_row(Text(f"  {name}", "dim"), Text(value))
    return Group(title, table) if table.row_count else title


def _steps(story: Story) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    several = len({event for step in story.steps for event in step.events}) > 1
    if story.left_out:
        table.add_row("", Text("⋮", "dim"), Text(f"{story.left_out} older steps are left out", "dim"))
    today = ""
    for before, step in pairwise([None, *story.steps]):
        assert step is not None
        when = local(step.at_ms)
        if day(when) != today:
            today = day(when)
            table.add_row("", "", Text(today, "bold"))
        elif before is not None and step.at_ms - before.at_ms >= _GAP_MS:
            table.add_row("", Text("│", "dim"), Text(span(step.at_ms - before.at_ms), "dim"))
        mark, style = _MARKS[step.level]
        table.add_row(clock(when), Text(mark, style), _told(step, several, style))
    return table


def _told(step: Step, several: bool, style: str) -> Text:
    text = Text(step.title, f"{style} bold".strip())
    if several and step.events:
        text.append(f"  {_names(step.events)}", "not bold dim")
    for line in step.details:
        text.append(f"\n{line}", "not bold dim" if not line.startswith("→") else f"not bold {style}")
    return text


def _names(events: Sequence[str]) -> str:
    shown = " ".join(event[:_SHORT] for event in events[:3])
    return f"{shown} and {len(events) - 3} more" if len(events) > 3 else shown


def _now(now: Now) -> Text:
    kind, _, name = now.about.partition(" ")
    text = Text.assemble(("Now  ", "bold cyan"), (f"{kind} {name[:_SHORT]} ", "dim"), now.text)
    text.overflow = "fold"
    return text
