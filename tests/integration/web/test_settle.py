"""`POST /sendreminder` with `settleJob`: the reminder takes the place of the enrolment's job, by an order."""

from __future__ import annotations

from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition

from ops.clinic import Connection
from ops.whatsapp.scenario import Scenario
from ops.whatsapp.serving import WhatsAppBeside
from schemas.codec import decode_command, decode_job
from schemas.records import Command
from settings import Settings
from streams import topics
from tests.integration.web.conftest import Serve

PHONE = "+5511988887777"
NOBODY = "127.0.0.1:9"


def orders(kafka: str, settings: Settings) -> list[tuple[bytes | str | None, Command]]:
    """Key and order of every record of `dispatch.control`."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": str(uuid4()), "enable.partition.eof": True})
    consumer.assign([TopicPartition(settings.topic(topics.CONTROL), 0, 0)])
    found = []
    while (record := consumer.poll(10)) is not None and record.error() is None:
        found.append((record.key(), decode_command(record.value() or b"")))
    consumer.close()
    return found


async def test_the_order_is_durable_when_it_is_answered_and_only_when_it_was_asked_for(
    serve: Serve, connection: Connection, whatsapp: WhatsAppBeside, kafka: str, prefix: str
) -> None:
    settings = Settings(kafka_bootstrap_servers=kafka, topic_prefix=prefix, partitions=1)
    topics.ensure_topics(kafka, settings)
    async with serve(kafka_bootstrap_servers=kafka, topic_prefix=prefix) as service:
        job = (await service.post(delayMs=3_600_000)).json()["jobId"]
        plain = (await service.post("/sendreminder")).json()
        assert plain["jobSettled"] is None and orders(kafka, settings) == []
        whatsapp.treat(Scenario(mode="error", code=131026, times=2), PHONE)
        assert (await service.post("/sendreminder", settleJob=True)).status_code == 502
        assert orders(kafka, settings) == [], "what was not sent settles nothing"
        answer = await service.post("/sendreminder", settleJob=True)
    assert answer.status_code == 200 and answer.json()["jobSettled"] is True
    ((key, order),) = orders(kafka, settings)
    assert key == f"{service.organization_id}:{PHONE}".encode()
    assert (order.action, order.job_id) == ("settle", job)
    assert order.reason == answer.json()["providerMessageId"]
    assert order.issued_by == f"web:{service.token.split('_')[1]}" and order.job is not None
    assert decode_job(order.job).seq >= 2, "above that of the event, whose outcome may come later"
    found = connection.execute("SELECT status FROM group_link_dispatch_queue").fetchall()
    assert found == [("pending",)], "the row is the worker's to change"


async def test_what_stands_against_it_is_told_before_anything_is_sent(
    serve: Serve, connection: Connection, whatsapp: WhatsAppBeside
) -> None:
    async with serve(kafka_bootstrap_servers=NOBODY) as service:
        expected = [("no_such_job", 404)]
        answers = [await service.post("/sendreminder", settleJob=True)]
        await service.post()
        for status, code in (("sent", "job_is_sent"), ("processing", "job_is_being_sent")):
            connection.execute("UPDATE group_link_dispatch_queue SET status = %s", [status])
            answers.append(await service.post("/sendreminder", settleJob=True))
            expected.append((code, 409))
        connection.execute("UPDATE group_link_dispatch_queue SET status = 'pending'")
        answers.append(await service.post("/sendreminder", settleJob=True, phone="+5511900000000"))
        answers.append(await service.post("/sendreminder", settleJob="yes"))
        answers.append(await service.post("/sendreminder", settleJob=True))
        expected += [("invalid", 422), ("invalid", 422), ("kafka_away", 503)]
        assert (await service.post(settleJob=True)).status_code == 422, "an enrolment has no such field"
    assert [(one.json()["error"]["code"], one.status_code) for one in answers] == expected
    assert whatsapp.messages() == []
