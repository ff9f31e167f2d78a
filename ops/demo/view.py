"""How the demo is shown while it runs: live on a terminal, lines elsewhere, nothing under `--json`."""

from __future__ import annotations

import time
from typing import Protocol

from rich.console import Console
from rich.live import Live

from ops.demo.board import Board, Card
from ops.demo.fates import told
from ops.demo.happenings import Happening, Moved, Noted, Resent, SentNoise, Wrote
from ops.demo.live import Screen, screen
from ops.demo.words import MEANINGS, bubble, counted, milliseconds

_FRAMES_A_SECOND = 10
_PASSING = frozenset({"waiting", "running"})
"""States of a job that no line is written for."""


class View(Protocol):
    """Is told of everything after the board was."""

    def happened(self, happening: Happening, card: Card | None) -> None:
        """Something happened; `card` is what it changed on the board."""

    def draw(self, now: float) -> None:
        """Time passes (s, monotonic)."""

    def close(self) -> None:
        """Nothing happens any more."""


class Silent:
    """Shows nothing."""

    def happened(self, happening: Happening, card: Card | None) -> None:
        """Nothing."""

    def draw(self, now: float) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class LiveView:
    """The whole board, redrawn; its last state stays on the screen."""

    def __init__(self, console: Console, board: Board, frame: Screen) -> None:
        self._console = console
        self._board = board
        self._frame = frame
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
        self._next = 0.0
        self._live.start()

    def happened(self, happening: Happening, card: Card | None) -> None:
        """Shown with the next frame."""

    def draw(self, now: float) -> None:
        """Draw a frame if one is due."""
        if now >= self._next:
            self._next = now + 1 / _FRAMES_A_SECOND
            self._live.update(screen(self._board, self._frame, now, self._console.size), refresh=True)

    def close(self) -> None:
        """Leave the last frame."""
        self._live.update(
            screen(self._board, self._frame, time.monotonic(), self._console.size), refresh=True
        )
        self._live.stop()


class Lines:
    """A line for each message and for each thing that comes of some."""

    def __init__(self, console: Console, begun: float) -> None:
        self._console = console
        self._begun = begun
        self._told: set[tuple[int, str, int]] = set()

    def happened(self, happening: Happening, card: Card | None) -> None:
        """Say it."""
        text = _line(happening)
        if text:
            self._say(happening, text)
        elif isinstance(happening, Moved):
            if card is not None and happening.state not in _PASSING:
                self._say(happening, f"{who(card)} → {went(card, happening)}")
        elif card is not None and card.state != "open":
            key = (id(card), card.state, card.attempts if card.state == "retry" else 0)
            if (card.state != "job" or card.row_at is not None) and key not in self._told:
                self._told.add(key)
                self._say(happening, f"{who(card)} → {became(card)}")

    def draw(self, now: float) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""

    def _say(self, happening: Happening, text: str) -> None:
        at = getattr(happening, "at", self._begun) - self._begun
        self._console.print(f"{at:6.1f} s  {text}", markup=False, highlight=False, soft_wrap=True)


def _line(happening: Happening) -> str:
    match happening:
        case Wrote(chat=chat, text=text, kind=kind):
            return f"{chat.name} ({chat.role}): {bubble(text, kind)}"
        case Resent(chat=chat):
            return f"{chat.name} ({chat.role}): the same record again"
        case SentNoise():
            return "bytes that are no JSON, straight into the topic"
        case Noted(chat=chat, what=what):
            return what if chat is None else f"{chat.name} ({chat.role}): {what}"
        case _:
            return ""


def who(card: Card) -> str:
    """Whose card it is."""
    return f"{card.chat.name} ({card.chat.role})"


def became(card: Card) -> str:
    """What came of a card, in one line."""
    messages = counted(len(card.messages), "message")
    if card.state == "job":
        after = "its photo or audio was read" if card.with_media else "its window"
        late = "" if card.with_media else f", {milliseconds(card.beyond_ms)} after {after}"
        return f"1 job · {messages}{late}"
    if card.state == "stop":
        meaning = MEANINGS.get(card.outcome, "")
        return f"stop: {card.outcome} · {messages}{f' ({meaning})' if meaning else ''}"
    if card.state == "dead":
        return f"dead after {counted(card.attempts, 'attempt')}: {card.outcome} · {messages}, one alert"
    if card.state == "retry":
        return f"attempt {card.attempts} failed, tries again · {messages}"
    return messages


def went(card: Card, moved: Moved) -> str:
    """What a card's job has come to, in one line."""
    assert card.fate is not None, "a job that moved has a fate"
    return told(card.fate, len(card.messages), moved.at)


def view_for(console: Console, board: Board, frame: Screen) -> View:
    """Live if the console is a terminal, else lines."""
    return LiveView(console, board, frame) if console.is_terminal else Lines(console, frame.begun)
