"""One frame of the live view: chats and what came of them, counters, clock, where things listen (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rich.console import ConsoleDimensions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ops.demo.board import Board, Card, percentile
from ops.demo.fates import LEVELS, Fate, Level, told
from ops.demo.happenings import FateState
from ops.demo.words import MEANINGS, bubble, counted, milliseconds

_WIDE = 104
"""Columns from which counters stand beside the chats, not below."""
_SIDE = 34
_AROUND = 7
"""Lines that are not cards: title, counters, what happens beside, where things listen."""
_CARD_LINES = 3
_BAR = 8

_LOOKS: Final[Mapping[Level, tuple[str, str]]] = {
    "waits": ("○", "cyan"),
    "works": ("◐", "bold cyan"),
    "good": ("✓", "bold green"),
    "stop": ("↻", "yellow"),
    "bad": ("✗", "red"),
}
"""Mark and style of a job's fate."""
_FATES: Final[tuple[tuple[str, str, tuple[FateState, ...]], ...]] = (
    ("answered", "green", ("answered",)),
    ("being answered", "cyan", ("running",)),
    ("wait for their turn", "cyan", ("waiting",)),
    ("wait for a retry", "yellow", ("delayed",)),
    ("held", "yellow", ("held",)),
    ("answered by newer turns", "green", ("merged", "covered")),
    ("vetoed or cancelled", "yellow", ("vetoed", "cancelled")),
    ("dead", "red", ("dead",)),
)


@dataclass(frozen=True, slots=True)
class Screen:
    """What does not change: when it began (s, monotonic), how long it is, where things are."""

    begun: float
    seconds: float
    kafka: str
    postgres: str
    home: str
    engine: str = ""
    title: str = "a minute of Clínica Aurora on WhatsApp"


def screen(board: Board, frame: Screen, now: float, size: ConsoleDimensions) -> RenderableType:
    """The whole frame at `now` (s, monotonic) for a terminal of `size`."""
    wide = size.width >= _WIDE
    room = max(1, (size.height - _AROUND - (0 if wide else 2)) // _CARD_LINES)
    shown = _shown(board.cards, room)
    cards = Group(*(_card(board, card, now, size.width - (_SIDE + 3 if wide else 0)) for card in shown))
    body: RenderableType
    if wide:
        grid = Table.grid(expand=True, padding=(0, 1))
        grid.add_column(ratio=1)
        grid.add_column(width=_SIDE)
        grid.add_row(cards, _counters(board))
        body = grid
    else:
        body = Group(cards, _one_line(board))
    return Group(_title(frame, now), Text(), body, Text(), _beside(board), _listens(frame))


def _shown(cards: list[Card], room: int) -> list[Card]:
    """As many as there is room for, in the order of time: what goes on rather than what has ended."""
    newest = sorted(cards, key=lambda card: (card.ended, -card.messages[0].at))[:room]
    return sorted(newest, key=lambda card: card.messages[0].at)


def _title(frame: Screen, now: float) -> RenderableType:
    gone = min(max(0.0, now - frame.begun), frame.seconds)
    filled = round(20 * gone / frame.seconds)
    grid = Table.grid(expand=True)
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    grid.add_column(justify="right", no_wrap=True)
    clock = Text.assemble(
        ("━" * filled, "cyan"), ("━" * (20 - filled), "grey30"), f"  {_clock(gone)} / {_clock(frame.seconds)}"
    )
    grid.add_row(Text.assemble(("rajada demo", "bold"), "  ", frame.title), clock)
    return grid


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _card(board: Board, card: Card, now: float, width: int) -> RenderableType:
    """Name and fate in the first line, bubbles in the second."""
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis", justify="right")
    grid.add_row(
        Text.assemble((card.chat.name, "bold"), (f"  {card.chat.role}", "dim")), _fate(board, card, now)
    )
    return Padding(Group(grid, _bubbles(card, width)), (0, 0, 1, 0))


def _bubbles(card: Card, width: int) -> Text:
    """The newest bubbles that fit in one line."""
    chips: list[str] = []
    left = width - 2
    for message in reversed(card.messages):
        chip = f" {bubble(message.text, message.kind)} "
        left -= len(chip) + 1
        if left < 0 and chips:
            break
        chips.append(chip)
    line = Text(no_wrap=True, overflow="ellipsis")
    if len(chips) < len(card.messages):
        line.append("… ", "dim")
    style = "grey62 on grey15" if card.ended else "on grey19"
    for chip in reversed(chips):
        line.append(chip, style)
        line.append(" ")
    return line


def _fate(board: Board, card: Card, now: float) -> Text:
    messages = counted(len(card.messages), "message")
    meaning = MEANINGS.get(card.outcome, "")
    match card.state:
        case "open":
            return _waiting(board, card, now)
        case "retry":
            return Text.assemble(
                (f"↻ attempt {card.attempts} failed", "yellow"), (f"  {card.outcome}", "dim")
            )
        case "job":
            assert card.fate is not None, "a job has a fate"
            late = "" if card.with_media or card.beyond_ms is None else f"  +{milliseconds(card.beyond_ms)}"
            return _job(card.fate, len(card.messages), late, now)
        case "stop":
            return Text.assemble((f"■ stop: {card.outcome}", "yellow"), (f"  {meaning or messages}", "dim"))
        case "dead":
            return Text.assemble((f"✗ dead: {card.outcome}", "red"), (f"  {messages}, dead letters", "dim"))


def _job(fate: Fate, messages: int, late: str, now: float) -> Text:
    """What its job has come to, with the countdown of a retry."""
    mark, style = _LOOKS[LEVELS[fate.state]]
    if fate.state in ("held", "vetoed", "cancelled"):
        mark = "■"
    return Text.assemble((f"{mark} {told(fate, messages, now)}", style), (late if fate.ended else "", "dim"))


def _waiting(board: Board, card: Card, now: float) -> Text:
    """The window's countdown, then what it waits for."""
    left = card.deadline - now
    if left > 0:
        length = card.messages[0].window_ms / 1000
        filled = min(_BAR, max(0, round(_BAR * left / length)))
        return Text.assemble(
            ("▪" * filled, "cyan"), ("▪" * (_BAR - filled), "grey30"), (f"  {left:4.1f} s", "cyan")
        )
    if board.waits_for_media(card, now):
        return Text("waits until the photo or audio is read", "magenta")
    return Text("is decided", "cyan")


def _counters(board: Board) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=_SIDE - 9, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", width=7, no_wrap=True)
    table.add_row(Text("messages in", "bold"), str(board.messages))
    table.add_row(Text("jobs out", "bold green"), str(len(board.jobs)))
    _add_fates(table, board.in_state)
    _add_reasons(table, "stops", "yellow", board.counted("stop"))
    _add_reasons(table, "dead letters", "red", board.letters)
    table.add_row(Text("on their way", "cyan"), str(board.pending))
    if board.resent:
        table.add_row(Text("records repeated", "dim"), str(board.resent))
    ranked = board.latencies_ms()
    table.add_row("")
    table.add_row(Text("job row after its window", "dim"), "")
    table.add_row("  p50", milliseconds(percentile(ranked, 0.5)))
    table.add_row("  p99", milliseconds(percentile(ranked, 0.99)))
    return table


def _beside(board: Board) -> Text:
    """The newest of what happens beside the chats: numbers, group links, stuck instances."""
    told = next((note.what for note in reversed(board.notes) if note.chat is None), "")
    return Text(told, "dim", no_wrap=True, overflow="ellipsis")


def _listens(frame: Screen) -> Text:
    """Where things are, in one line."""
    line = Text(no_wrap=True, overflow="ellipsis")
    places = {"Kafka": frame.kafka, "Postgres": frame.postgres, "data": frame.home, "engine": frame.engine}
    for name, where in places.items():
        if where:
            line.append(f"{name} ", "dim")
            line.append(f"{where}   ")
    return line


def _add_fates(table: Table, in_state: Counter[FateState]) -> None:
    for name, style, states in _FATES:
        count = sum(in_state[state] for state in states)
        if count:
            table.add_row(Text(f"  {name}", style), str(count))


def _add_reasons(table: Table, name: str, style: str, reasons: dict[str, int]) -> None:
    table.add_row(Text(name, f"bold {style}"), str(sum(reasons.values())))
    for reason, count in sorted(reasons.items()):
        table.add_row(Text(f"  {reason}", style), str(count))


def _one_line(board: Board) -> Text:
    """The counters where there is no room beside."""
    ranked = board.latencies_ms()
    return Text.assemble(
        ("messages ", "dim"),
        f"{board.messages}  ",
        ("jobs ", "dim"),
        (f"{len(board.jobs)}  ", "green"),
        ("answered ", "dim"),
        (f"{board.in_state['answered']}  ", "green"),
        ("stops ", "dim"),
        (f"{sum(board.counted('stop').values())}  ", "yellow"),
        ("dead letters ", "dim"),
        (f"{board.letters.total()}  ", "red"),
        ("row after window p50 ", "dim"),
        milliseconds(percentile(ranked, 0.5)),
    )
