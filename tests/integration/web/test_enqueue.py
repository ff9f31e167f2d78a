"""`POST /`: the row and the event, both or none, once an enrolment (spec/group_link.md)."""

from __future__ import annotations

import asyncio
import json
from uuid import UUID

import httpx
import psycopg
import pytest

from db.group_links import GroupLinkRequest, enqueue_group_link_template, job_of_enrolment
from db.publisher import partition_key
from ops.clinic import Connection
from schemas.topic_names import GROUP_LINKS
from streams.group_links import GroupLinkEvent, read_group_link
from tests.integration.web.conftest import Serve, Service

ROW = "SELECT id, status, delay_ms, max_attempts, available_at - created_at FROM group_link_dispatch_queue"
EVENT = "SELECT id, organization_id, event_type, payload, attempts, partition_key FROM event_log"


def count(connection: Connection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert row is not None
    return int(str(row[0]))


async def test_a_row_and_an_event_that_the_worker_reads(serve: Serve, connection: Connection) -> None:
    async with serve() as service:
        answer = await service.post(delayMs=90_000, maxAttempts=3)
    assert answer.status_code == 202
    told = answer.json()
    assert told["created"] is True
    assert told["jobId"] == str(job_of_enrolment(service.organization_id, "enr-1"))
    ((row_id, status, delay_ms, most, waits),) = connection.execute(ROW).fetchall()
    assert (str(row_id), status, delay_ms, most) == (told["jobId"], "pending", 90_000, 3)
    assert waits.total_seconds() == 90
    ((event_id, organization_id, event_type, payload, attempts, key),) = connection.execute(EVENT).fetchall()
    value = json.dumps(
        {
            "id": str(event_id),
            "organization_id": str(organization_id),
            "event_type": event_type,
            "payload": json.dumps(payload),
            "attempts": attempts,
        }
    )
    found = read_group_link(value.encode(), (), 0)
    assert isinstance(found, GroupLinkEvent)
    assert found.key.decode() == key == f"{service.organization_id}:+5511988887777"
    assert key == partition_key(str(organization_id), GROUP_LINKS, str(event_id), json.dumps(payload))
    job = found.job
    assert (job.id, job.max_attempts) == (told["jobId"], 3)
    assert abs(job.run_after_ms - payload["available_at_ms"]) == 0
    content = json.loads(job.payload)
    assert content["student_name"] == "Ana Souza" and content["template_language"] == "pt_BR"


async def test_the_same_enrolment_answers_the_same_job_and_changes_nothing(
    serve: Serve, connection: Connection
) -> None:
    async with serve() as service:
        first = await service.post()
        again = await service.post(phone="+5511900000000", delayMs=5_000)
    assert first.json()["jobId"] == again.json()["jobId"]
    assert (again.status_code, again.json()["created"]) == (202, False)
    assert (count(connection, "group_link_dispatch_queue"), count(connection, "event_log")) == (1, 1)


@pytest.mark.long
async def test_500_identical_posts_at_once_make_one_row(serve: Serve, connection: Connection) -> None:
    async def taken_in(service: Service) -> httpx.Response:
        """As a client does: who is told that there is no room just now (503) asks again."""
        while (answer := await service.post()).status_code == 503:  # noqa: ASYNC110  # there is no event
            await asyncio.sleep(0.1)
        return answer

    async with serve() as service:
        answers = await asyncio.gather(*(taken_in(service) for _ in range(500)))
    assert {one.status_code for one in answers} == {202}
    assert len({one.json()["jobId"] for one in answers}) == 1
    assert sum(one.json()["created"] for one in answers) == 1
    assert (count(connection, "group_link_dispatch_queue"), count(connection, "event_log")) == (1, 1)


async def test_a_held_enrolment_is_answered_too(serve: Serve, connection: Connection) -> None:
    async with serve() as service:
        job = (await service.post()).json()["jobId"]
        connection.execute("UPDATE group_link_dispatch_queue SET available_at = 'infinity'")
        again = (await service.post()).json()
        shown = (await service.get(f"/jobs/{job}")).json()
    assert (again["jobId"], again["availableAt"]) == (job, None)
    assert (shown["status"], shown["availableAt"]) == ("held", None)


NUMBERS: list[tuple[str, float, str, int]] = [
    ("delayMs", 0, "delay_ms", 0),
    ("delayMs", -1, "delay_ms", 0),
    ("delayMs", -1e12, "delay_ms", 0),
    ("delayMs", 1.9, "delay_ms", 1),
    ("maxAttempts", 0, "max_attempts", 1),
    ("maxAttempts", -7, "max_attempts", 1),
    ("maxAttempts", 0.5, "max_attempts", 1),
    ("maxAttempts", 1, "max_attempts", 1),
    ("maxAttempts", 10_000, "max_attempts", 100),
]


async def test_numbers_below_their_least_count_as_that(serve: Serve, connection: Connection) -> None:
    async with serve() as service:
        for number, (field, asked, column, counts_as) in enumerate(NUMBERS):
            answer = await service.post(**{field: asked, "enrolmentId": f"e{number}"})
            job = answer.json()["jobId"]
            query = f"SELECT {column} FROM group_link_dispatch_queue WHERE id = %s"
            assert connection.execute(query, [job]).fetchall() == [(counts_as,)], (field, asked)


async def test_without_them_there_are_five_attempts_and_no_delay(
    serve: Serve, connection: Connection
) -> None:
    async with serve() as service:
        await service.post()
    found = connection.execute("SELECT max_attempts, delay_ms FROM group_link_dispatch_queue").fetchall()
    assert found == [(5, 0)]


@pytest.mark.parametrize("keep", [True, False])
def test_the_function_is_in_its_callers_transaction(
    database: str, connection: Connection, keep: bool
) -> None:
    organization_id = UUID(int=77)
    connection.execute(
        "INSERT INTO organizations (id, name, status) VALUES (%s, 's', 'active')", [organization_id]
    )
    request = GroupLinkRequest(
        organization_id=organization_id, enrolment_id="e", flow="business", student_name="A",
        phone="+5511988887777", group_link="https://x/y", template_name="t", template_language="en",
        delay_ms=-5, max_attempts=0,
    )  # fmt: skip
    with psycopg.connect(database) as caller:
        done = enqueue_group_link_template(caller, request)
        assert done.job_id == job_of_enrolment(organization_id, "e") and done.created
        assert enqueue_group_link_template(caller, request).created is False
        if not keep:
            caller.rollback()
    assert count(connection, "group_link_dispatch_queue") == count(connection, "event_log") == int(keep)
