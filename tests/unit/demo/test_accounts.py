"""The accounts: everything has one end, and what has none is named."""

from __future__ import annotations

import json

import msgspec
import pytest
from rich.console import Console

from ops.demo.accounts import Accounts, EventRow, JobRow, account, as_json
from ops.demo.board import Board
from ops.demo.happenings import JobBuried, SentNoise
from ops.demo.instances import Instances
from ops.demo.links import Links
from ops.demo.report import report
from tests.unit.demo.told import a_run

ROWS = (
    EventRow("a", "done", "job", "job-a", ("job-a",)),
    EventRow("b", "done", "job", "job-a", ("job-a",)),
    EventRow("photo", "done", "job", "job-photo", ("job-photo",)),
    EventRow("c", "done", "no_published_agent", None, ()),
    EventRow("d", "dead", "contact_missing", None, ()),
)


JOBS = (
    JobRow("job-a", "done", 2, ("a", "b"), "done"),
    JobRow("job-photo", "done", 1, ("photo",), "done"),
)
EFFECTS = {"job-a": 1, "job-photo": 1, "job-of-an-earlier-run": 1}


def accounts_of(
    board: Board, *changed: EventRow, jobs: tuple[JobRow, ...] = (), effects: dict[str, int] = EFFECTS
) -> Accounts:
    """The accounts of a run whose rows are right but for the changed ones."""
    rows = {row.event_id: row for row in (*ROWS, *changed)}
    by_id = {job.job_id: job for job in (*JOBS, *jobs)}
    return account(board, rows.values(), by_id.values(), effects, alerts=1, seconds=9.64)


def told(accounts: Accounts, width: int = 110) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(report(accounts))
    return console.export_text()


def test_a_right_run() -> None:
    accounts = accounts_of(a_run())
    assert accounts.right and accounts.complete
    assert (accounts.messages, accounts.jobs, accounts.in_jobs, accounts.answered) == (5, 2, 3, 3)
    assert (accounts.ends, accounts.retried, accounts.answers) == ({"answered": 2}, 1, 2)
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


def test_what_is_on_its_way_when_a_run_is_stopped_is_not_lost() -> None:
    board = a_run()
    board.interrupted = True
    waiting = EventRow("a", "pending", None, None, ())
    running = JobRow("job-photo", "running", 1, ("photo",), "started")
    accounts = accounts_of(board, waiting, jobs=(running,), effects={"job-a": 1})
    assert (accounts.lost, accounts.unended, accounts.misanswered, accounts.noise_lost) == ((), (), (), 0)
    assert (accounts.on_their_way, accounts.still_running) == (("a",), ("job-photo",))
    said = told(accounts)
    assert "on their way" in said and "and 1 job" in said and "has no end yet" in said


def test_of_a_stopped_run_too_an_end_that_does_not_hold_together_is_lost() -> None:
    board = a_run()
    board.interrupted = True
    accounts = accounts_of(board, EventRow("a", "done", "job", "job-a", ("job-z",)))
    assert accounts.lost == ("a",) and not accounts.on_their_way


def test_an_event_without_a_row_is_lost() -> None:
    accounts = account(a_run(), ROWS[1:], JOBS, EFFECTS, alerts=1, seconds=1)
    assert accounts.lost == ("a",)


def test_an_event_in_two_jobs_is_doubled() -> None:
    accounts = accounts_of(a_run(), EventRow("a", "done", "job", "job-a", ("job-a", "job-z")))
    assert accounts.doubled == ("a",) and not accounts.right


def test_a_stopped_event_in_a_job_is_not_right() -> None:
    assert not accounts_of(a_run(), EventRow("c", "done", "superseded", None, ("job-z",))).right


def test_events_of_a_merged_or_covered_job_count_for_the_one_that_took_it_over() -> None:
    newer = JobRow("job-z", "done", 1, ("z",), "done")
    for step in ("merged", "covered_by"):
        accounts = accounts_of(
            a_run(),
            EventRow("a", "done", "job", "job-z", ("job-a", "job-z")),
            EventRow("b", "done", "job", "job-z", ("job-a", "job-z")),
            EventRow("z", "done", "job", "job-z", ("job-z",)),
            jobs=(JobRow("job-a", "done", 0, ("a", "b"), f"{step}:job-z"), newer),
            effects={"job-z": 1, "job-photo": 1},
        )
        assert (accounts.lost, accounts.doubled, accounts.misanswered) == ((), (), ())
        assert (accounts.in_jobs, accounts.answered) == (4, 4)
        assert accounts.ends == {"answered": 2, {"merged": "merged", "covered_by": "covered"}[step]: 1}


@pytest.mark.parametrize(
    ("job", "effects", "wrong"),
    [
        (JobRow("job-a", "done", 1, ("a", "b"), "done"), 0, True),
        (JobRow("job-a", "done", 2, ("a", "b"), "done"), 2, True),
        (JobRow("job-a", "failed", 1, ("a", "b"), "vetoed:http_409: closed"), 0, False),
        (JobRow("job-a", "failed", 1, ("a", "b"), "vetoed:http_409: closed"), 1, True),
        (JobRow("job-a", "done", 1, ("a", "b"), "merged:job-photo"), 1, True),
    ],
)
def test_the_engine_s_own_count_must_agree_with_how_a_job_ended(
    job: JobRow, effects: int, wrong: bool
) -> None:
    accounts = accounts_of(a_run(), jobs=(job,), effects={"job-a": effects, "job-photo": 1})
    assert accounts.misanswered == (("job-a",) if wrong else ())
    assert accounts.right is not wrong or bool(accounts.lost)


@pytest.mark.parametrize("status", ["pending", "running"])
def test_a_job_that_has_not_ended_is_unaccounted_for(status: str) -> None:
    job = JobRow("job-a", status, 1, ("a", "b"), "retry:http_503")
    accounts = accounts_of(a_run(), jobs=(job,), effects={"job-photo": 1})
    assert accounts.unended == ("job-a",) and not accounts.right
    assert "not ended" in told(accounts)


def test_a_dead_job_needs_its_dead_letter() -> None:
    board = a_run()
    dead = JobRow("job-a", "dead", 1, ("a", "b"), "dead:http_422")
    assert accounts_of(board, jobs=(dead,), effects={"job-photo": 1}).unended == ("job-a",)
    board.tell(JobBuried(9.0, "http_422", "job-a"))
    accounts = accounts_of(board, jobs=(dead,), effects={"job-photo": 1})
    assert accounts.right and accounts.dead_letters["http_422"] == 1
    assert (accounts.in_jobs, accounts.answered) == (3, 1)


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
        "each under its own idempotency key, 1 of them not at the first attempt",
        "by the engine's own count of idempotency keys, for 3 messages",
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


def test_group_links_and_stuck_instances_have_a_line_each_and_what_is_wrong_is_told() -> None:
    well = msgspec.structs.replace(
        accounts_of(a_run()),
        links=Links(enrolled=6, again=1, sent=5, failed=1, taken=5, wrong=()),
        instances=Instances(4, 4, {"connected": 2, "provisioning_failed": 1, "archived": 1}, 1, 1),
        complete=True,
    )
    lines = {line.split("  ")[0]: line for line in told(well).splitlines()}
    assert "5 sent, 1 failed; the provider took 5" in lines["group links"]
    assert (
        "1 archived, 2 connected, 1 failed; 1 of 2 notifications resolved itself" in lines["stuck instances"]
    )
    assert "not as it must be" not in told(well)
    wrong = msgspec.structs.replace(well, links=Links(6, 1, 5, 1, 7, ("Ana",)))
    assert not wrong.right and "group links of Ana" in told(wrong)
    assert msgspec.structs.replace(wrong, complete=False).amiss == (), "it was stopped on the way"
