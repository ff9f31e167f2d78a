"""The board: which messages belong together, and what became of them."""

from __future__ import annotations

import pytest

from ops.demo.board import Board, percentile
from ops.demo.happenings import (
    Broke,
    Buried,
    Decided,
    Finished,
    JobBuried,
    MediaRead,
    Moved,
    Resent,
    SentNoise,
)
from tests.unit.demo.told import ANA, BIA, a_run, job, moved, row, stop, wrote


def told(*happenings: object) -> Board:
    board = Board()
    for happening in happenings:
        board.tell(happening)  # type: ignore[arg-type]
    return board


def events(board: Board) -> list[list[str]]:
    return [[message.event_id for message in card.messages] for card in board.cards]


def test_messages_of_a_chat_gather_within_the_window_of_the_first() -> None:
    board = told(wrote("a", 1.0), wrote("x", 1.1, BIA), wrote("b", 3.0), wrote("c", 3.1))
    assert events(board) == [["a", "b"], ["x"], ["c"]]


def test_messages_join_while_a_photo_is_read() -> None:
    board = told(wrote("photo", 1.0, kind="image"), wrote("b", 8.0))
    assert events(board) == [["photo", "b"]]
    assert board.waits_for_media(board.cards[0], 8.0)
    board.tell(MediaRead(8.1, ANA, "photo"))
    assert not board.waits_for_media(board.cards[0], 8.2)
    board.tell(wrote("c", 8.3))
    assert events(board) == [["photo", "b"], ["c"]]


def test_an_outcome_puts_together_what_was_decided_together() -> None:
    board = told(wrote("a", 1.0), wrote("b", 2.0), wrote("c", 2.5), job("a", "b"))
    assert events(board) == [["a", "b"], ["c"]]
    assert [card.state for card in board.cards] == ["job", "open"]
    board = told(wrote("a", 1.0), wrote("b", 3.5), job("a", "b"))
    assert events(board) == [["a", "b"]], "the pipeline knows better than the guess"


def test_a_message_after_a_decision_begins_another_card() -> None:
    board = told(wrote("a", 1.0), stop("a"), wrote("b", 1.2))
    assert events(board) == [["a"], ["b"]]


def test_an_outcome_told_again_changes_nothing() -> None:
    board = told(wrote("a", 1.0), job("a"), stop("a"))
    assert (board.cards[0].state, board.cards[0].outcome) == ("job", "job")


def test_outcomes_of_another_run_are_nobody_s() -> None:
    assert told(job("stranger")).cards == []


@pytest.mark.parametrize("row_first", [True, False])
def test_the_row_counts_from_the_first_message_and_its_window(row_first: bool) -> None:
    outcome, seen = job("a", "b", at=3.01), row("a", "b", at=3.06)
    order = (seen, outcome) if row_first else (outcome, seen)
    board = told(wrote("a", 1.0), wrote("b", 1.9), *order)
    assert board.cards[0].beyond_ms == pytest.approx(60)
    assert board.latencies_ms() == [pytest.approx(60)]


def test_windows_that_waited_for_a_photo_are_no_latencies() -> None:
    assert len(a_run().jobs) == 2
    assert a_run().latencies_ms() == [pytest.approx(50)]


def test_a_failing_decision_is_open_until_it_dies() -> None:
    board = told(wrote("a", 1.0), Decided(3.0, ("a",), "pending", None, None, 2, "gone"))
    assert (board.cards[0].state, board.cards[0].attempts, board.pending) == ("retry", 2, 1)
    board.tell(Decided(4.0, ("a",), "dead", "contact_missing", None, 5))
    assert (board.cards[0].state, board.pending) == ("dead", 0)


def test_a_job_goes_its_way_and_old_news_change_nothing() -> None:
    board = told(wrote("a", 1.0), moved("a", "running", 3), job("a"))
    (fate,) = board.fates
    assert fate.state == "running", "its outcome may be seen before its window's"
    board.tell(moved("a", "delayed", 4, attempts=1, why="http_503", again_at=12.0))
    assert (fate.state, fate.attempts, fate.again_at, board.pending) == ("delayed", 1, 12.0, 1)
    assert board.tell(moved("a", "running", 3)) is None, "told again"
    assert fate.state == "delayed"
    board.tell(moved("a", "answered", 6, attempts=2))
    assert (fate.again_at, fate.ended, board.pending) == (None, True, 0)
    assert board.in_state == {"answered": 1}


def test_jobs_of_another_run_are_nobody_s() -> None:
    stranger = JobBuried(1.0, "http_422", "job-stranger")
    board = told(moved("stranger", "running", 3), stranger, wrote("a", 1.0), job("a"), row("a"))
    assert board.in_state == {"waiting": 1} and board.letters == {}
    board.tell(moved("a", "answered", 4))
    board.tell(Finished(2.0))
    assert board.settled


def test_it_is_settled_when_every_job_has_ended() -> None:
    seen = (wrote("a", 1.0), job("a"), row("a"), Finished(2.0))
    for state in ("waiting", "running", "delayed", "held"):
        assert not told(*seen, moved("a", state, 3)).settled, state  # type: ignore[arg-type]
    for state in ("answered", "merged", "covered", "vetoed", "cancelled"):
        assert told(*seen, moved("a", state, 3)).settled, state  # type: ignore[arg-type]
    dead = told(*seen, moved("a", "dead", 3, why="http_422"))
    assert not dead.settled, "its dead letter was not seen"
    dead.tell(JobBuried(3.0, "http_422", "job-a"))
    assert dead.settled and dead.letters == {"http_422": 1}


def test_it_is_settled_when_all_is_written_decided_and_seen() -> None:
    assert a_run().settled
    assert not told(wrote("a", 1.0), Finished(2.0)).settled
    done = Moved(9.0, "job-a", (0, 4), "answered")
    assert not told(wrote("a", 1.0), job("a"), done, Finished(2.0)).settled, "its row was not seen"
    assert told(wrote("a", 1.0), job("a"), row("a"), done, Finished(2.0)).settled
    assert not told(wrote("a", 1.0), job("a"), row("a"), done).settled, "more may come"
    dead = told(wrote("d", 1.0), Decided(4.0, ("d",), "dead", "contact_missing", None, 5), Finished(4.1))
    assert not dead.settled, "its dead letter was not seen"
    dead.tell(Buried(4.2, "contact_missing", (0, 7), "d"))
    assert dead.settled
    noise = told(SentNoise(1.0, 0, 5), Finished(2.0))
    assert not noise.settled
    noise.tell(Buried(1.1, "not_json", (0, 5), None))
    assert noise.settled


def test_counts_are_of_windows_and_of_messages() -> None:
    board = told(wrote("a", 1.0), wrote("b", 1.1), stop("a", "b"), wrote("c", 9.0), stop("c"))
    assert board.counted("stop") == {"no_published_agent": 2}
    assert board.messages_in("stop") == {"no_published_agent": 3}


def test_repeats_and_failures_are_noted() -> None:
    error = RuntimeError("away")
    board = told(Resent(1.0, ANA, "a"), Broke(error))
    assert (board.resent, board.error) == (1, error)


def test_percentiles_are_by_nearest_rank() -> None:
    ranked = [float(number) for number in range(100)]
    assert (percentile(ranked, 0.5), percentile(ranked, 0.99), percentile([], 0.5)) == (50.0, 99.0, None)
