"""Orders to jobs on a real Kafka and a real Postgres: what is written, and what is said when nobody hears."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition

from schemas.codec import decode_command
from schemas.topic_names import APP_ID, CONTROL
from settings import Settings
from streams.topics import ensure_topics
from tests.integration.graveyard import Graveyard

PHONE = "+5511912345678"


@pytest.fixture
def yard(kafka: str, database: str, prefix: str, tmp_path: Path) -> Graveyard:
    settings = Settings(topic_prefix=prefix)
    ensure_topics(kafka, settings)
    made = Graveyard(database, kafka, settings, tmp_path / "home")
    made.execute("INSERT INTO organizations (id) VALUES (%s)", made.organization)
    return made


def job_row(yard: Graveyard, status: str = "pending") -> tuple[str, str]:
    """Id and contact of a job."""
    job, contact = str(uuid4()), str(uuid4())
    yard.execute("INSERT INTO contacts (id, organization_id) VALUES (%s, %s)", contact, yard.organization)
    yard.execute(
        "INSERT INTO job_queue (id, organization_id, contact_id, kind, status)"
        " VALUES (%s, %s, %s, 'inbound_turn', %s)",
        job, yard.organization, contact, status,
    )  # fmt: skip
    return job, contact


def link_row(yard: Graveyard) -> str:
    """Id of a group link's job."""
    job = str(uuid4())
    yard.execute(
        "INSERT INTO group_link_dispatch_queue (id, organization_id, enrolment_id, flow, phone, group_link,"
        " template_name, template_language) VALUES (%s, %s, 'e1', 'personal', %s, 'https://x', 't', 'pt_BR')",
        job, yard.organization, PHONE,
    )  # fmt: skip
    return job


def told(yard: Graveyard, job: str, order: str, outcome: str, status: str, **facts: str) -> None:
    """The sink writes what a worker told of an order."""
    yard.execute(
        "INSERT INTO rajada.trace (at, organization_id, job_id, stage, status, outcome, facts)"
        " VALUES (now(), %s, %s, 'control', %s, %s, %s::jsonb)",
        yard.organization, job, status, outcome, json.dumps({"command": order, **facts}),
    )  # fmt: skip


@pytest.mark.parametrize("action", ["cancel", "run-now", "hold", "release"])
def test_an_order_goes_to_the_owner_of_the_jobs_contact_and_is_written_down(
    yard: Graveyard, action: str
) -> None:
    job, contact = job_row(yard)
    yes = ["--yes"] if action == "cancel" else []
    done = yard.json("jobs", action, job, "--reason", "told by Ana", *yes)
    (record,) = yard.records(CONTROL)
    command = decode_command(record.value() or b"")
    assert record.key() == f"{yard.organization}:{contact}".encode()
    assert (command.action, command.job_id, command.reason) == (action.replace("-", "_"), job, "told by Ana")
    assert (command.id, command.organization_id) == (done["order"], yard.organization)
    assert done["carried_out"] is False
    ((by, reason),) = yard.execute("SELECT ordered_by, reason FROM rajada.orders WHERE id = %s", command.id)
    assert "@" in by and reason == "told by Ana"


def test_a_group_links_job_is_reached_by_its_phone(yard: Graveyard) -> None:
    job = link_row(yard)
    assert yard.run("jobs", "hold", job).returncode == 0
    (record,) = yard.records(CONTROL)
    assert record.key() == f"{yard.organization}:{PHONE}".encode()


def test_the_same_order_twice_is_one(yard: Graveyard) -> None:
    job, _ = job_row(yard)
    order = str(uuid4())
    for _ in range(2):
        assert yard.json("jobs", "cancel", job, "--yes", "--order", order)["order"] == order
    assert {decode_command(one.value() or b"").id for one in yard.records(CONTROL)} == {order}
    assert yard.execute("SELECT count(*) FROM rajada.orders") == [(1,)]


def test_orders_that_mean_nothing_are_refused_with_what_to_do(yard: Graveyard) -> None:
    unknown = yard.run("jobs", "cancel", str(uuid4()))
    assert unknown.returncode == 12 and "Nothing is known of a job" in unknown.stderr
    for status, words in {"done": "it is done", "failed": "cancelled", "dead": "dlq requeue --id"}.items():
        refused = yard.run("jobs", "cancel", job_row(yard, status)[0])
        assert refused.returncode == 10 and words in refused.stderr
    assert yard.run("jobs", "cancel", "x").returncode == 2
    table = yard.run("jobs", "cancel", job_row(yard)[0], RAJADA_JOBS_RUN_BY="table")
    assert table.returncode == 3 and "the CRM's own workers run the jobs" in table.stderr
    assert yard.records(CONTROL) == []


def test_a_cancellation_is_asked_about_since_it_is_for_good(yard: Graveyard) -> None:
    job, _ = job_row(yard)
    asked = yard.run("jobs", "cancel", job, answer="n\n")
    assert asked.returncode == 1 and f"inbound_turn job {job}, which is pending" in asked.stdout
    assert yard.run("jobs", "cancel", job, "--json").returncode == 2
    assert yard.records(CONTROL) == []
    assert yard.run("jobs", "cancel", job, answer="y\n").returncode == 0
    assert len(yard.records(CONTROL)) == 1


def test_waiting_tells_what_came_of_it_or_for_whom_it_waits(yard: Graveyard) -> None:
    job, _ = job_row(yard)
    late = yard.run("jobs", "cancel", job, "--yes", "--wait", "--timeout", "0.5")
    assert late.returncode == 11 and "no worker has read it" in late.stderr
    order = str(uuid4())
    told(yard, job, order, "cancelled:by hand", "failed")
    done = yard.run("jobs", "cancel", job, "--yes", "--wait", "--order", order)
    assert done.returncode == 0 and f"Job {job}: cancelled:by hand, now failed." in done.stdout
    refused_order = str(uuid4())
    told(yard, job, refused_order, "refused:hold", "done", because="hold of a job that is done")
    refused = yard.run("jobs", "hold", job, "--wait", "--order", refused_order)
    assert refused.returncode == 10 and "hold of a job that is done" in refused.stderr


def test_a_pause_goes_to_every_partition_under_one_id(yard: Graveyard) -> None:
    asked = yard.run("pause", answer="n\n")
    assert asked.returncode == 1 and yard.records(CONTROL) == []
    assert yard.run("pause", "--json").returncode == 2
    order = yard.json("pause", "--yes", "--reason", "incident")["order"]
    records = yard.records(CONTROL)
    assert [one.partition() for one in records] == list(range(8))
    assert {(one.key(), decode_command(one.value() or b"").id) for one in records} == {(b"", order)}
    yard.json("pause", "--organization", yard.organization)
    assert "everything" in yard.run("pause", "--list").stdout
    ended = yard.run("resume")
    assert ended.returncode == 0 and "1 organization stays paused" in ended.stderr
    (left,) = yard.json("pause", "--list")
    assert left["organization_id"] == yard.organization
    still = yard.run("resume", "--organization", yard.organization)
    assert still.returncode == 0 and still.stderr == ""
    assert "Nothing is paused." in yard.run("pause", "--list").stdout


def test_the_kill_switch_needs_no_postgres(yard: Graveyard) -> None:
    away = {"DATABASE_URL": "postgresql://postgres@127.0.0.1:1/none"}
    done = yard.run("pause", "--yes", **away)
    assert done.returncode == 0 and "It is not written down who ordered it" in done.stderr
    assert len(yard.records(CONTROL)) == 8
    assert yard.run("jobs", "cancel", str(uuid4()), **away).returncode == 7


def test_waiting_for_a_pause_ends_when_every_partition_was_read(yard: Graveyard) -> None:
    late = yard.run("pause", "--yes", "--wait", "--timeout", "0.5")
    assert late.returncode == 11 and "no worker has read it" in late.stderr

    def read() -> None:
        time.sleep(2)
        topic = yard.settings.topic(CONTROL)
        worker = Consumer({"bootstrap.servers": yard.bootstrap, "group.id": yard.settings.topic(APP_ID)})
        worker.commit(offsets=[TopicPartition(topic, one, 2) for one in range(8)], asynchronous=False)
        worker.close()

    thread = threading.Thread(target=read)
    thread.start()
    done = yard.run("pause", "--yes", "--wait")
    thread.join()
    assert done.returncode == 0 and "Paused: everything" in done.stdout
