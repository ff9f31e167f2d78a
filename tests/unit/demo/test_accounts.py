"""The accounts: everything has one end, and what has none is named."""

from __future__ import annotations

import json

import msgspec
import pytest
from rich.console import Console

from ops.demo.accounts import Accounts, EventRow, account, as_json
from ops.demo.board import Board
from ops.demo.happenings import SentNoise
from ops.demo.report import report
from tests.unit.demo.told import a_run

ROWS = (
    EventRow("a", "done", "job", "job-a", ("job-a",)),
    EventRow("b", "done", "job", "job-a", ("job-a",)),
    EventRow("photo", "done", "job", "job-photo", ("job-photo",)),
    EventRow("c", "done", "no_published_agent", None, ()),
    EventRow("d", "dead", "contact_missing", None, ()),
)


def accounts_of(board: Board, *changed: EventRow) -> Accounts:
    """The accounts of a run whose rows are right but for the changed ones."""
    rows = {row.event_id: row for row in (*ROWS, *changed)}
    return account(board, rows.values(), jobs=2, alerts=1, seconds=9.64)


def told(accounts: Accounts, width: int = 110) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(report(accounts))
    return console.export_text()


def test_a_right_run() -> None:
    accounts = accounts_of(a_run())
    assert accounts.right and accounts.complete
    assert (accounts.messages, accounts.jobs, accounts.answered) == (5, 2, 3)
    assert [(stop.reason, stop.windows, stop.messages) for stop in accounts.stops] == [
        ("no_published_agent", 1, 1)
    ]
    assert accounts.dead_letters == {"contact_missing": 1, "not_json": 1}
    assert accounts.latency.count == 1 and accounts.latency.p99_ms == pytest.approx(50)


@pytest.mark.parametrize(
    "row",
    [
        EventRow("a", "pending", None, None, ()),
        EventRow("a", "processing", None, None, ()),
        EventRow("a", "done", None, None, ()),
        EventRow("a", "done", "job", "job-a", ()),
        EventRow("a", "done", "job", "job-a", ("job-z",)),
        EventRow("c", "dead", "contact_missing", None, ()),
    ],
)
def test_an_event_without_an_end_that_holds_together_is_lost(row: EventRow) -> None:
    accounts = accounts_of(a_run(), row)
    assert accounts.lost == (row.event_id,) and not accounts.right


def test_an_event_without_a_row_is_lost() -> None:
    accounts = account(a_run(), ROWS[1:], jobs=2, alerts=1, seconds=1)
    assert accounts.lost == ("a",)


def test_an_event_in_two_jobs_is_doubled() -> None:
    accounts = accounts_of(a_run(), EventRow("a", "done", "job", "job-a", ("job-a", "job-z")))
    assert accounts.doubled == ("a",) and not accounts.right


def test_a_stopped_event_in_a_job_is_not_right() -> None:
    assert not accounts_of(a_run(), EventRow("c", "done", "superseded", None, ("job-z",))).right


def test_noise_without_a_dead_letter_is_lost() -> None:
    board = a_run()
    board.tell(SentNoise(1.0, 0, 99))
    accounts = accounts_of(board)
    assert accounts.noise_lost == 1 and not accounts.right


def test_the_table_tells_each_reason_with_its_count() -> None:
    text = told(accounts_of(a_run()))
    for wanted in (
        "messages in",
        "5  and 1 record of noise",
        "for 3 messages",
        "no_published_agent",
        "contact_missing",
        "not_json",
        "p50 50 ms, p99 50 ms",
        "1 job, rows read every 5 ms",
    ):
        assert wanted in text, text
    assert "Stopped before its end" not in text


def test_the_table_shows_what_is_lost() -> None:
    text = told(accounts_of(a_run(), EventRow("a", "pending", None, None, ())))
    (line,) = [line for line in text.splitlines() if line.startswith("lost")]
    assert line.split()[1] == "1"


def test_a_run_that_was_stopped_says_so() -> None:
    assert "Stopped before its end" in told(msgspec.structs.replace(accounts_of(a_run()), complete=False))


def test_json_has_everything_and_the_verdict() -> None:
    found = json.loads(as_json(accounts_of(a_run()), {"kafka": "k:1"}))
    assert (found["right"], found["kafka"], found["lost"], found["noise_lost"]) == (True, "k:1", [], 0)
    assert found["latency"]["p50_ms"] == pytest.approx(50)
    assert found["stops"] == [{"reason": "no_published_agent", "windows": 1, "messages": 1}]
