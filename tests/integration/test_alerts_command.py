"""`rajada alerts` and `rajada jobs ls|show` as people type them, on a real Postgres."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator

import msgspec
import pytest

from schemas import alert_texts
from schemas.alert_texts import title
from tests.command_line import run_rajada
from tests.integration.alert_desk import Desk, desk_database

NOWHERE = "127.0.0.1:1"
EVENT_DEAD, JOB_DEAD, SKEW = title("event_dead"), title("job_dead"), title("clock_skew")


@pytest.fixture(scope="module")
def url(postgres: str) -> Iterator[str]:
    with desk_database(postgres) as made:
        yield made


@pytest.fixture
def desk(url: str) -> Iterator[Desk]:
    made = Desk(url)
    yield made
    made.close()


def run(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    named = {"DATABASE_URL": url, "KAFKA_BOOTSTRAP_SERVERS": NOWHERE, "COLUMNS": "240"}
    return run_rajada(*arguments, env={**os.environ, **named})


def wrong_things(desk: Desk) -> None:
    """Two dead events, one dead job, a clock that is wrong, and somebody else's item."""
    desk.tell(desk.death(desk.event()), desk.death(desk.event()))
    job = desk.job()
    desk.tell(desk.job_death(job))
    desk.tell(
        desk.outcome(organization_id="", stage="health", outcome="s", facts='{"by":"w"}',
                     alert=alert_texts.clock_skew(2_000))
    )  # fmt: skip
    desk.run(
        "INSERT INTO agent_inbox_items (organization_id, kind, title, body)"
        " VALUES (%s, 'event_dead', 'Theirs', 'call +55 11 98765-4321'), (%s, 'sale', 'Sold', '')",
        desk.organization, desk.organization,
    )  # fmt: skip


def test_alerts_are_listed_acknowledged_and_resolved(desk: Desk, url: str) -> None:
    assert "Nothing is wrong." in run(url, "alerts").stdout
    wrong_things(desk)
    listed = run(url, "alerts")
    assert listed.returncode == 0, listed.stderr
    told = listed.stdout
    assert f"open  {EVENT_DEAD}  ×2" in told and f"open  {JOB_DEAD}" in told and f"open  {SKEW}" in told
    assert "the platform, since" in told and f"organization {desk.organization}, since" in told
    assert "Abra a conversa e responda" in told and "98765" not in told and "Sold" not in told
    found = {one["title"]: one for one in json.loads(run(url, "alerts", "--json").stdout)}
    assert (found[EVENT_DEAD]["occurrences"], found[EVENT_DEAD]["status"]) == (2, "open")
    assert found[SKEW]["organization_id"] is None

    names = [found[EVENT_DEAD]["id"], found[JOB_DEAD]["id"]]
    acknowledged = run(url, "alerts", "ack", *names)
    assert acknowledged.stdout.count("is ack now") == 2
    assert "was ack already" in run(url, "alerts", "ack", names[0]).stdout
    assert EVENT_DEAD not in run(url, "alerts", "--open").stdout and EVENT_DEAD in run(url, "alerts").stdout
    resolved = json.loads(run(url, "alerts", "resolve", names[0], "--json").stdout)
    assert resolved == [{"id": names[0], "title": EVENT_DEAD, "was": "ack", "status": "resolved"}]
    assert "was resolved already" in run(url, "alerts", "ack", names[0]).stdout
    assert EVENT_DEAD not in run(url, "alerts").stdout
    assert f"resolved  {EVENT_DEAD}" in run(url, "alerts", "--all").stdout
    whose = json.loads(run(url, "alerts", "--all", "--json", "--organization", desk.organization).stdout)
    assert {one["title"] for one in whose} == {EVENT_DEAD, JOB_DEAD, "Theirs"}


def test_an_alert_that_is_not_there_or_not_ours_is_not_touched(desk: Desk, url: str) -> None:
    wrong_things(desk)
    ((theirs,),) = desk.run("SELECT id::text FROM agent_inbox_items WHERE kind = 'sale'")
    for name in (theirs, str(uuid.uuid4())):
        refused = run(url, "alerts", "resolve", name)
        assert refused.returncode == 12 and "rajada alerts --all" in refused.stderr
    assert desk.run("SELECT status FROM agent_inbox_items WHERE kind = 'sale'") == [("open",)]
    assert run(url, "alerts", "ack", "nonsense").returncode == 2
    assert run(url, "alerts", "--open", "--all").returncode == 2


def test_jobs_are_listed_by_what_is_asked(desk: Desk, url: str) -> None:
    jobs = {name: desk.job() for name in ("fresh", "retry", "held", "dead")}
    later = desk.now_ms + 3_600_000
    desk.tell(
        desk.step(jobs["fresh"], "pending"),
        msgspec.structs.replace(
            desk.step(jobs["retry"], "pending", "retry:http_503", attempt=2, run_after_ms=later),
            last_error="http_503: call +55 11 98765-4321",
        ),
        desk.step(jobs["held"], "held", "held:no_engine"),
        desk.job_death(jobs["dead"], attempt=5),
    )
    link = desk.job("group_link_template")
    desk.run(
        "INSERT INTO group_link_dispatch_queue (id, organization_id, enrolment_id, flow, phone, group_link,"
        " template_name, template_language, status)"
        " VALUES (%s, %s, 'e', 'personal', '+551', 'l', 't', 'pt_BR', 'sent')", link.id, desk.organization,
    )  # fmt: skip
    told = run(url, "jobs", "ls")
    assert told.returncode == 0, told.stderr
    lines = {line.split()[2]: line for line in told.stdout.splitlines() if "-" in line}
    assert "waits for its turn" in lines[jobs["fresh"].id]
    assert "retry 3 of 5 at" in lines[jobs["retry"].id] and "98765" not in lines[jobs["retry"].id]
    assert "is held (no agent engine is named)" in lines[jobs["held"].id]
    assert "is dead after 5 of 5" in lines[jobs["dead"].id]
    assert "group_link_template" in lines[link.id] and "is done" in lines[link.id]

    def ids(*arguments: str) -> set[str]:
        return {one["id"] for one in json.loads(run(url, "jobs", "ls", "--json", *arguments).stdout)}

    assert ids("--status", "held") == {jobs["held"].id}
    assert ids("--status", "pending") == {jobs["fresh"].id, jobs["retry"].id}
    assert ids("--status", "dead", "--status", "done") == {jobs["dead"].id, link.id}
    assert ids("--kind", "group_link_template") == {link.id}
    assert ids("--contact", desk.contact) == {job.id for job in jobs.values()}
    assert ids("--organization", str(uuid.uuid4())) == set()
    assert len(ids("--limit", "2")) == 2
    desk.run("UPDATE job_queue SET created_at = now() - interval '3 days'")
    assert ids() == {link.id} and len(ids("--since", "ever")) == 5 and len(ids("--since", "4d")) == 5
    (row,) = json.loads(run(url, "jobs", "ls", "--json", "--since", "ever", "--status", "held").stdout)
    assert row["run_after"] is None and row["now"]["state"] == "held" and row["status"] == "held"
    assert "no such jobs since 1s" in run(url, "jobs", "ls", "--since", "1s", "--status", "dead").stdout
    assert run(url, "jobs", "ls", "--status", "odd").returncode == 2
    assert run(url, "jobs", "ls", "--since", "odd").returncode == 2


def test_a_job_is_shown_with_its_whole_story(desk: Desk, url: str) -> None:
    event, job = desk.event(), desk.job()
    desk.run(
        "INSERT INTO rajada.orders (id, action, job_id, ordered_by, reason)"
        " VALUES (%s, 'hold', %s, 'ana', 'r')", str(uuid.uuid4()), job.id,
    )  # fmt: skip
    facts = '{"attempt":1,"duration_ms":1250,"http_status":503}'
    failed = desk.step(job, "pending", "retry:http_503", attempt=1, run_after_ms=desk.now_ms + 10_000)
    desk.tell(
        desk.outcome(event, outcome="job", job_id=job.id, job=job, job_status="pending"),
        msgspec.structs.replace(desk.step(job, "running", attempt=1), facts='{"attempt":1}'),
        msgspec.structs.replace(
            failed, facts=facts, next_attempt_at_ms=desk.now_ms + 10_000, last_error="http_503: busy"
        ),
        desk.job_death(job, attempt=5),
    )
    shown = run(url, "jobs", "show", job.id)
    assert shown.returncode == 0, shown.stderr
    for words in (
        "attempts  5 of 5", "one job for 1 message", "attempt 1 begins",
        "attempt 1 failed after 1.2 s: the server answered 503", "HTTP 503",
        "the job is given up after 5 attempts", f"an alert opens: {JOB_DEAD}", "ordered to be held", "by ana",
        "What is going on now is not told",
    ):  # fmt: skip
        assert words in shown.stdout, (words, shown.stdout)
    told = json.loads(run(url, "jobs", "show", job.id, "--json").stdout)
    assert (told["job"]["status"], told["job"]["now"]["state"], told["story"]["kind"]) == (
        "dead",
        "dead",
        "job",
    )
    refused = run(url, "jobs", "show", event)
    assert refused.returncode == 12 and f"rajada why {event}" in refused.stderr
    assert run(url, "jobs", "show", str(uuid.uuid4())).returncode == 12


def test_a_group_link_without_a_trace_is_shown_too(desk: Desk, url: str) -> None:
    link = str(uuid.uuid4())
    desk.run(
        "INSERT INTO group_link_dispatch_queue (id, organization_id, enrolment_id, flow, phone, group_link,"
        " template_name, template_language, available_at) VALUES (%s, %s, 'e', 'personal', '+551', 'l', 't',"
        " 'pt_BR', 'infinity')", link, desk.organization,
    )  # fmt: skip
    for command in (("jobs", "show"), ("why",)):
        shown = run(url, *command, link)
        assert shown.returncode == 0, shown.stderr
        assert "is held until somebody releases it" in shown.stdout
