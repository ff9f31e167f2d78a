"""`rajada replay` on a real Kafka and a real Postgres, as people type it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Message, TopicPartition
from confluent_kafka.admin import AdminClient

from schemas.topic_names import GROUP_LINKS, SOURCE
from settings import Settings
from streams.topics import ensure_topics
from tests.integration.graveyard import Graveyard, headers


@pytest.fixture
def yard(kafka: str, database: str, prefix: str, tmp_path: Path) -> Graveyard:
    settings = Settings(topic_prefix=prefix)
    ensure_topics(kafka, settings)
    return Graveyard(database, kafka, settings, tmp_path / "home")


def published(yard: Graveyard, count: int = 1, topic: str = SOURCE, **changes: object) -> list[str]:
    """Events on a topic; their ids."""
    ids = []
    for _ in range(count):
        event_id, record = yard.event(**changes)
        yard.publish(record, topic)
        ids.append(event_id)
    assert yard.producer.flush(30) == 0
    return ids


def copies(yard: Graveyard, topic: str = SOURCE) -> list[Message]:
    return [one for one in yard.records(topic) if "replay" in headers(one)]


def ids_of(records: list[Message]) -> list[str]:
    return sorted(json.loads(one.value() or b"")["id"] for one in records)


def test_a_stretch_of_time_comes_again_under_one_number(yard: Graveyard) -> None:
    ids = published(yard, 30)
    yard.publish(yard.died(b"nonsense"), SOURCE)
    yard.producer.flush(10)
    dry = yard.json("replay", SOURCE, "--from-time", "1h", "--dry-run")
    assert (dry["records"], dry["skipped"]) == (30, {"unreadable": 1}) and copies(yard) == []
    told = yard.json("replay", SOURCE, "--from-time", "1h", "--yes")
    assert (told["sent"], told["complete"]) == (30, True)
    found = copies(yard)
    assert ids_of(found) == sorted(ids)
    assert {headers(one)["replay"] for one in found} == {str(told["run"]).encode()}
    for one in found:  # each lies where its original lies
        topic, partition, _ = headers(one)["copied-from"].decode().rsplit("/", 2)
        assert (topic, int(partition)) == (one.topic(), one.partition())
    again = yard.json("replay", SOURCE, "--from-time", "1h", "--yes")
    assert again["run"] > told["run"], "another number"


def test_offsets_of_one_partition_and_what_is_not_there_any_more(yard: Graveyard) -> None:
    published(yard, 60)
    records = [one for one in yard.records(SOURCE) if one.partition() == 3]
    ranged = ["--partition", "3", "--from-offset", "1", "--to-offset", "2"]
    assert yard.json("replay", SOURCE, *ranged, "--yes")["sent"] == 2
    assert ids_of(copies(yard)) == ids_of(records[1:3])
    where = TopicPartition(yard.settings.topic(SOURCE), 3, 2)
    admin = AdminClient({"bootstrap.servers": yard.bootstrap})
    admin.delete_records([where])[where].result(10)
    told = yard.run("replay", SOURCE, "--partition", "3", "--from-offset", "0", "--dry-run")
    assert "Partition 3 begins at offset 2: 0 to 1 are gone." in told.stdout
    past = yard.run("replay", SOURCE, "--partition", "3", "--from-offset", "9999", "--yes")
    assert past.returncode == 2 and "ends at offset" in past.stderr
    assert yard.run("replay", SOURCE, "--from-offset", "1").returncode == 2
    nothing = yard.run("replay", SOURCE, "--from-time", "2099-01-01", "--yes")
    assert nothing.returncode == 12 and "lies in that stretch" in nothing.stderr


def test_one_contact_alone(yard: Graveyard) -> None:
    published(yard, 20)
    event_id, record = yard.event()
    yard.publish(record, SOURCE)
    yard.producer.flush(10)
    key = (record.key or b"").decode()
    assert yard.json("replay", SOURCE, "--from-time", "1h", "--key", key, "--yes")["sent"] == 1
    assert ids_of(copies(yard)) == [event_id]


def test_new_jobs_are_made_only_after_showing_how_many(yard: Graveyard) -> None:
    ids = published(yard, 3)
    yard.json("replay", SOURCE, "--from-time", "1h", "--yes")  # each lies there twice now
    refused = yard.run("replay", SOURCE, "--from-time", "1h", "--again", answer="n\n")
    assert refused.returncode == 1 and "Make new jobs of 3 events?" in refused.stdout
    told = yard.json("replay", SOURCE, "--from-time", "1h", "--again", "--yes")
    assert (told["sent"], told["skipped"]) == (3, {"twice": 3})
    assert ids_of([one for one in copies(yard) if headers(one).get("again") == b"1"]) == sorted(ids)


def test_group_links_that_were_done_are_left_out(yard: Graveyard) -> None:
    phone = {"payload": json.dumps({"phone": "+5511912345678"}), "event_type": GROUP_LINKS}
    done, traced, waiting = published(yard, 3, GROUP_LINKS, **phone)
    insert = "INSERT INTO event_log (id, organization_id, event_type, status) VALUES (%s, %s, %s, 'done')"
    yard.execute(insert, done, yard.organization, GROUP_LINKS)
    trace = "INSERT INTO rajada.trace (at, event_id, stage, status) VALUES (now(), %s, 'execute', 'done')"
    yard.execute(trace, traced)
    told = yard.json("replay", GROUP_LINKS, "--from-time", "1h", "--yes")
    assert (told["sent"], told["skipped"]) == (1, {"done": 2})
    assert ids_of(copies(yard, GROUP_LINKS)) == [waiting]
    assert yard.run("replay", GROUP_LINKS, "--from-time", "1h", "--again", "--yes").returncode == 2


def test_topics_that_make_no_sense_are_refused(yard: Graveyard) -> None:
    for topic, told in {
        "dispatch.jobs": "dlq requeue",
        "dispatch.dead": "dlq requeue",
        "x": "no topic",
    }.items():
        refused = yard.run("replay", topic, "--from-time", "1h", "--yes")
        assert refused.returncode == 2 and told in " ".join(refused.stderr.split())
    assert yard.run("replay", SOURCE, "--yes").returncode == 2, "without a beginning"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_replay_that_was_ended_goes_on_under_its_number_and_doubles_nothing(
    yard: Graveyard, how: signal.Signals
) -> None:
    ids = published(yard, 300)
    command = ["replay", SOURCE, "--from-time", "1h", "--yes", "--rate", "8"]
    process = subprocess.Popen(yard.command(*command), env=yard.environment, stdout=subprocess.DEVNULL)
    sent = "SELECT coalesce((progress ->> 'sent')::int, 0) FROM rajada.replays"
    while sum(n for (n,) in yard.execute(sent)) < 16:
        assert process.poll() is None
        time.sleep(0.02)
    second = yard.run(*command)
    assert second.returncode == 5 and "Another replay runs" in second.stderr
    process.send_signal(how)
    assert process.wait(30) == (130 if how == signal.SIGINT else -how)
    published(yard, 5)  # what comes meanwhile is not for this run
    told = yard.run(*command[:-2])
    assert told.returncode == 0 and "Goes on with replay" in told.stdout
    found = copies(yard)
    assert ids_of(found) == sorted(ids), "each once"
    assert len(Counter(headers(one)["replay"] for one in found)) == 1
