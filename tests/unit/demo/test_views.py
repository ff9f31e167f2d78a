"""What is seen while it runs: a frame on a terminal, lines elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, ConsoleDimensions

from ops.demo.board import Board
from ops.demo.happenings import Decided, Noted, Resent, SentNoise
from ops.demo.live import Screen, screen
from ops.demo.view import Lines, LiveView, Silent, view_for
from tests.unit.demo.told import ANA, BIA, a_run, job, moved, row, stop, wrote

FRAME = Screen(0.0, 60.0, "k:9092", "postgresql://p@h/d", "/home/ana/.rajada/demo")


def drawn(board: Board, now: float, width: int = 120, height: int = 40) -> str:
    console = Console(width=width, height=height, file=io.StringIO(), record=True)
    console.print(screen(board, FRAME, now, ConsoleDimensions(width, height)))
    return console.export_text()


def test_a_frame_shows_bubbles_fates_counters_clock_and_places() -> None:
    text = drawn(a_run(), 16.0)
    for wanted in (
        "0:16 / 1:00",
        "text of a",
        "✓ answered · 2 messages, attempt 2",
        "✓ answered · 1 message",
        "+50 ms",
        "■ stop: no_published_agent",
        "✗ dead: contact_missing",
        "▣ text of photo",
        "messages in",
        "k:9092",
        "postgresql://p@h/d",
        "/home/ana/.rajada/demo",
    ):
        assert wanted in text, text


def test_the_newest_of_what_happens_beside_the_chats_has_a_line() -> None:
    board = Board()
    board.tell(Noted(1.0, None, "4 WhatsApp instances are stuck"))
    board.tell(Noted(2.0, ANA, "a person takes over"))
    assert "4 WhatsApp instances are stuck" in drawn(board, 3.0)


def test_an_open_window_counts_down_then_waits_then_is_decided() -> None:
    board = Board()
    board.tell(wrote("a", 1.0))
    assert " 1.5 s" in drawn(board, 1.5)
    assert "is decided" in drawn(board, 3.1)
    board.tell(wrote("photo", 1.2, kind="image"))
    assert "waits until the photo or audio is read" in drawn(board, 3.1)
    board.tell(Decided(3.2, ("a", "photo"), "pending", None, None, 2, "gone"))
    assert "attempt 2 failed" in drawn(board, 3.3)


def test_a_job_s_way_is_shown_with_the_countdown_of_its_retry() -> None:
    board = Board()
    for happening in (wrote("a", 1.0), job("a"), row("a")):
        board.tell(happening)
    assert "○ 1 job · 1 message, waits for its turn" in drawn(board, 9.0)
    board.tell(moved("a", "running", 3, attempts=1))
    assert "◐ being answered · 1 message" in drawn(board, 9.0)
    board.tell(moved("a", "delayed", 4, attempts=1, why="http_503", again_at=21.0))
    text = drawn(board, 9.5)
    assert "↻ tries again in 11.5 s: attempt 1 failed, the server answered 503" in text
    assert "wait for a retry" in text
    board.tell(moved("a", "held", 5, attempts=1, why="no_engine: AGENT_ENGINE_URL is not set"))
    assert "■ held: no agent engine is named" in drawn(board, 9.5)
    board.tell(moved("a", "merged", 6, attempts=1, into="job-b"))
    assert "✓ answered with a newer turn · 1 message" in drawn(board, 9.5)


def test_what_goes_on_stays_on_the_screen_when_newer_messages_come() -> None:
    board = Board()
    for number in range(30):
        name = f"e{number}"
        board.tell(wrote(name, 10.0 * number))
        board.tell(job(name))
        board.tell(row(name))
        if number:
            board.tell(moved(name, "answered", 4))
    text = drawn(board, 300.0)
    assert "text of e0 " in text and "text of e29 " in text and "text of e1 " not in text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (40, 10), (200, 60)])
def test_a_frame_fits_the_terminal(width: int, height: int) -> None:
    board = Board()
    for number in range(60):
        board.tell(wrote(f"e{number}", float(number), BIA if number % 2 else ANA))
    lines = drawn(board, 60.0, width, height).rstrip("\n").splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_lines_tell_each_message_once_and_what_came_of_it() -> None:
    output = io.StringIO()
    board = Board()
    lines = Lines(Console(file=output, width=200), begun=0.0)
    for happening in (
        wrote("a", 1.0),
        Resent(1.1, ANA, "a"),
        SentNoise(1.2, 0, 1),
        Noted(1.3, ANA, "a person takes over"),
        job("a", at=3.0),
        row("a", at=3.1),
        job("a", at=3.2),
        moved("a", "running", 3, at=3.3, attempts=1),
        moved("a", "delayed", 4, at=4.0, attempts=1, why="http_503", again_at=7.0),
        moved("a", "delayed", 4, at=4.1, attempts=1, why="http_503", again_at=7.0),
        moved("a", "waiting", 5, at=7.1, attempts=1),
        moved("a", "answered", 7, at=7.2, attempts=2),
        wrote("b", 5.0, BIA),
        stop("b"),
        Noted(1.3, None, "a number loses its connection"),
    ):
        lines.happened(happening, board.tell(happening))
    assert [line.split("s  ", 1)[1] for line in output.getvalue().splitlines()] == [
        "Ana (fisioterapia): text of a",
        "Ana (fisioterapia): the same record again",
        "bytes that are no JSON, straight into the topic",
        "Ana (fisioterapia): a person takes over",
        "Ana (fisioterapia) → 1 job · 1 message, 100 ms after its window",
        "Ana (fisioterapia) → tries again in 3.0 s: attempt 1 failed, the server answered 503",
        "Ana (fisioterapia) → answered · 1 message, attempt 2",
        "Bia (gestante): text of b",
        "Bia (gestante) → stop: no_published_agent · 1 message (the number's agent is paused)",
        "a number loses its connection",
    ]


def test_a_terminal_gets_the_live_view_a_file_gets_lines() -> None:
    live = view_for(Console(file=io.StringIO(), force_terminal=True), Board(), FRAME)
    assert isinstance(live, LiveView)
    live.draw(1.0)
    live.close()
    assert isinstance(view_for(Console(file=io.StringIO()), Board(), FRAME), Lines)
    Silent().happened(wrote("a", 1.0), None)
