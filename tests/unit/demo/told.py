"""What a board is told in these tests."""

from __future__ import annotations

from ops.demo.board import Board
from ops.demo.happenings import (
    Buried,
    Decided,
    FateState,
    Finished,
    MediaRead,
    Moved,
    RowSeen,
    SentNoise,
    Wrote,
)
from ops.demo.steps import Chat

ANA = Chat("ana", "Ana", "fisioterapia")
BIA = Chat("bia", "Bia", "gestante")
WINDOW_MS = 2_000


def wrote(event_id: str, at: float, chat: Chat = ANA, kind: str = "text") -> Wrote:
    """A message at `at` seconds."""
    return Wrote(at, chat, f"text of {event_id}", event_id, WINDOW_MS, kind)


def job(*event_ids: str, at: float = 9.0) -> Decided:
    """The outcome `job` of some events; its job is named after the first."""
    return Decided(at, event_ids, "done", "job", f"job-{event_ids[0]}", 1)


def row(*event_ids: str, at: float = 9.0) -> RowSeen:
    """The job's row."""
    return RowSeen(at, f"job-{event_ids[0]}", event_ids)


def moved(event_id: str, state: FateState, seq: int, at: float = 9.0, **more: object) -> Moved:
    """The job of an event comes to a state."""
    return Moved(at, f"job-{event_id}", (0, seq), state, **more)  # type: ignore[arg-type]


def stop(*event_ids: str, reason: str = "no_published_agent") -> Decided:
    """A stop of some events."""
    return Decided(9.0, event_ids, "done", reason, None, 1)


def a_run() -> Board:
    """A finished run: a burst and a photo that are answered, a stop, a death, a record of noise."""
    board = Board()
    for happening in (
        wrote("a", 1.0),
        wrote("b", 1.5),
        wrote("photo", 1.0, BIA, "image"),
        MediaRead(8.0, BIA, "photo"),
        job("a", "b", at=3.01),
        row("a", "b", at=3.05),
        wrote("c", 4.0),
        stop("c"),
        wrote("d", 7.0),
        Decided(9.0, ("d",), "pending", None, None, 1, "gone"),
        Decided(9.5, ("d",), "dead", "contact_missing", None, 5),
        Buried(9.5, "contact_missing", (0, 7), "d"),
        job("photo", at=8.1),
        row("photo", at=8.2),
        moved("a", "running", 3, attempts=1),
        moved("a", "delayed", 4, attempts=1, why="http_503", again_at=12.5),
        moved("a", "running", 5, attempts=2),
        moved("a", "answered", 6, attempts=2),
        moved("photo", "running", 3, attempts=1),
        moved("photo", "answered", 4, attempts=1),
        SentNoise(5.0, 3, 11),
        Buried(5.1, "not_json", (3, 11), None),
        Finished(9.6),
    ):
        board.tell(happening)
    return board
