"""`rajada dlq` on a real Kafka and a real Postgres, as people type it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schemas.codec import decode_command
from schemas.dead import Cause
from schemas.topic_names import CONTROL, DEAD, OUTCOMES, PARKING, SOURCE
from settings import Settings
from streams.topics import ensure_topics
from tests.integration.graveyard import Died, Graveyard, headers, place

PRIVATE = "Ana Souza +55 11 91234-5678"


@pytest.fixture
def yard(kafka: str, database: str, prefix: str, tmp_path: Path) -> Graveyard:
    settings = Settings(topic_prefix=prefix)
    ensure_topics(kafka, settings)
    return Graveyard(database, kafka, settings, tmp_path / "home")


def test_letters_are_counted_in_groups_and_listed(yard: Graveyard) -> None:
    events = [yard.event() for _ in range(3)]
    job, died = yard.job()
    yard.bury([*(one for _, one in events), died, Died(b"\xff\xfe"), Died(None, b"junk")])
    told = yard.json("dlq", "ls")
    assert told["letters"] == 6 and told["note"] is None
    counted = {(one["reason"], one["kind"]): one["letters"] for one in told["groups"]}
    assert counted == {
        ("contact_missing", "ai_agent.dispatch_requested"): 3,
        ("http_500", "inbound_turn"): 1,
        ("not_json", "unreadable"): 2,
    }
    shown = yard.run("dlq", "ls").stdout
    assert "contact_missing" in shown and "6 open letters among the dead." in shown
    listed = yard.json("dlq", "ls", "--list", "--limit", "2", "--kind", "ai_agent.*")
    assert listed["letters"] == 3 and len(listed["newest"]) == 2
    by = yard.json("dlq", "ls", "--by", "organization,stage")["groups"]
    assert {one["organization"] for one in by} == {yard.organization, "unknown"}
    assert yard.json("dlq", "ls", "--header", "job-id=" + job.id)["letters"] == 1
    assert yard.json("dlq", "ls", "--id", events[0][0].upper())["letters"] == 1
    assert yard.json("dlq", "ls", "--organization", yard.organization, "--stage", "execute")["letters"] == 1
    assert yard.json("dlq", "ls", "--since", "1h")["letters"] == 6
    assert yard.json("dlq", "ls", "--until", "1h")["letters"] == 0
    assert yard.run("dlq", "ls", "--since", "soon").returncode == 2
    assert yard.run("dlq", "ls", "--by", "colour").returncode == 2


def test_a_letter_is_shown_without_personal_data_unless_asked_for(yard: Graveyard) -> None:
    event_id, died = yard.event(metadata=json.dumps({"name": PRIVATE}))
    yard.bury([died, Died(PRIVATE.encode() + b"\xff")])
    (letter, unreadable) = sorted(yard.records(DEAD), key=lambda one: one.value()[:1] != b"{")  # type: ignore[index]
    told = yard.run("dlq", "show", place(letter)).stdout
    assert "contact_missing" in told and "The way it went" in told and "attempt 5" in told
    assert f"rajada why {event_id}" in told and "Ana" not in told
    assert "Ana" not in yard.run("dlq", "show", place(unreadable)).stdout
    assert "Ana" in yard.run("dlq", "show", event_id, "--unmasked").stdout
    (shown,) = yard.json("dlq", "show", event_id)
    assert shown["state"] == "open" and shown["content"]["payload"]["contact_id"]
    assert "Ana" not in json.dumps(shown)
    missing = yard.run("dlq", "show", "dead/0/4711")
    assert missing.returncode == 12 and "There is no dead letter" in missing.stderr
    assert yard.run("dlq", "show", "letter 5").returncode == 2


def test_a_requeue_sends_everything_where_it_belongs_and_closes_it(yard: Graveyard) -> None:
    events = [yard.event() for _ in range(20)]
    job, died_job = yard.job()
    outcome = Died(b"\x00", None, OUTCOMES, Cause("sink", "not_avro", "no"))
    stranger = Died(b"x", None, "elsewhere")
    yard.bury([*(one for _, one in events), died_job, outcome, stranger])

    dry = yard.json("dlq", "requeue", "--all", "--dry-run")
    assert dry["goes"] == {SOURCE: 20, CONTROL: 1, OUTCOMES: 1}
    assert yard.records(SOURCE) == [] and yard.execute("SELECT count(*) FROM rajada.replays") == [(0,)]

    done = yard.run("dlq", "requeue", "--all", "--yes")
    assert done.returncode == 10, done.stderr
    assert "Requeued 22 letters" in done.stdout and "1 letter stays: it came from" in done.stdout
    ((number, finished),) = yard.execute("SELECT replay, finished_at IS NOT NULL FROM rajada.replays")
    assert finished

    sent = {json.loads(one.value() or b"")["id"]: one for one in yard.records(SOURCE)}
    assert sent.keys() == {event_id for event_id, _ in events}
    letters = {one.value(): one for one in yard.records(DEAD)}
    assert len(letters) == 23, "dead letters stay where they are"
    for event_id, died in events:
        copy, told = sent[event_id], headers(sent[event_id])
        assert (copy.key(), copy.value()) == (died.key, died.value)
        assert copy.partition() == letters[died.value].partition(), "the key's partition, as everywhere"
        assert (told["replay"], told["replays"]) == (str(number).encode(), b"1")
        assert "reason" not in told and told["kafka_dlt-original-offset"] == b"7"
    (order,) = yard.records(CONTROL)
    command = decode_command(order.value() or b"")
    assert (command.action, command.job_id, command.replay, command.replays) == (
        "requeue", job.id, number, 1,
    )  # fmt: skip
    assert (order.key(), command.job) == (died_job.key, died_job.value)
    assert len(yard.records(OUTCOMES)) == 1

    assert yard.closed() == {"requeued": 22}
    assert yard.json("dlq", "ls")["letters"] == 1
    told = yard.json("dlq", "ls", "--closed")
    assert told["letters"] == 23 and sum(one["closed"] for one in told["groups"]) == 22
    (shown,) = yard.json("dlq", "show", events[0][0])
    assert shown["state"] == "requeued" and f"requeued by run {number}" in shown["way"][-1]
    again = yard.run("dlq", "requeue", "--all", "--yes")
    assert again.returncode == 10 and len(yard.records(SOURCE)) == 20


def test_br_43_the_same_bad_record_is_parked_after_three_replays_and_stays_there(yard: Graveyard) -> None:
    event_id, died = yard.event()
    yard.bury([died])
    for n in (1, 2, 3):
        assert yard.json("dlq", "requeue", "--all", "--yes")["requeued"] == 1
        copy = yard.records(SOURCE)[-1]
        assert headers(copy)["replays"] == str(n).encode()
        kept = [(name, value) for name, value in copy.headers() or []]
        yard.bury([Died(copy.value(), copy.key(), cause=died.cause, headers=kept)])  # it dies again
    parked = yard.json("dlq", "requeue", "--all", "--yes")
    assert (parked["requeued"], parked["parked"]) == (0, 1)
    assert yard.closed() == {"requeued": 3, "parked": 1}
    (letter,) = yard.records(PARKING)
    assert (letter.key(), letter.value()) == (died.key, died.value)
    closed = yard.run("dlq", "requeue", "--reason", "contact_missing", "--closed", "--dry-run")
    assert "1 stay: parked before: `rajada dlq requeue --parking`" in closed.stdout
    assert headers(letter)["reason"] == b"contact_missing" and headers(letter)["replays"] == b"3"
    for _ in range(2):  # whoever requeues everything never touches it
        assert "No open letters" in yard.run("dlq", "requeue", "--all", "--yes").stdout
    assert len(yard.records(SOURCE)) == 3
    assert yard.json("dlq", "ls", "--parking")["letters"] == 1
    by_hand = yard.json("dlq", "requeue", f"parking/{letter.partition()}/{letter.offset()}", "--yes")
    assert by_hand["requeued"] == 1
    assert headers(yard.records(SOURCE)[-1])["replays"] == b"4"
    assert yard.json("dlq", "ls", "--parking")["letters"] == 0
    assert event_id


def test_what_is_dropped_is_written_down_and_can_be_taken_up_again(yard: Graveyard) -> None:
    event_id, died = yard.event()
    job, died_job = yard.job()
    yard.bury([died, died_job, Died(b"\xff")])
    assert yard.run("dlq", "drop", "--all", "--yes").returncode == 2, "without a reason"
    assert yard.run("dlq", "drop", "--because", "x", "--yes").returncode == 2, "without a selection"
    refused = yard.run("dlq", "drop", "--all", "--because", "test data", answer="n\n")
    assert refused.returncode == 1 and yard.closed() == {}
    done = yard.json("dlq", "drop", "--all", "--because", "test data", "--yes")
    assert done == {"letters": 3, "dropped": 3, "complete": True}
    rows = yard.execute(
        "SELECT kind, id::text, organization_id::text, reason, dropped_by FROM rajada.dropped"
    )
    assert {(kind, id_) for kind, id_, *_ in rows} >= {("event", event_id), ("job", job.id)}
    assert {reason for *_, reason, _ in rows} == {"test data"} and all("@" in row[4] for row in rows)
    assert yard.json("dlq", "ls")["letters"] == 0 and len(yard.records(DEAD)) == 3
    assert "No open letters" in yard.run("dlq", "requeue", "--all", "--yes").stdout
    why = yard.json("why", event_id)
    (dropped,) = [one for one in why["steps"] if one["what"] == "settled"]
    assert dropped["outcome"] == "dropped" and "test data" in dropped["details"]
    assert dropped["details"][0].startswith("by ") and dropped["at_ms"] > 0
    asked = yard.run("dlq", "requeue", "--id", event_id, "--closed", answer="n\n")
    assert asked.returncode == 1 and "CLOSED" in asked.stdout
    assert yard.json("dlq", "requeue", "--id", event_id, "--closed", "--yes")["requeued"] == 1
    settled = [one for one in yard.json("why", event_id)["steps"] if one["what"] == "settled"]
    assert [one["outcome"] for one in settled] == ["dropped", "requeued"], "the one before stays told"
    ((number,),) = yard.execute("SELECT max(replay) FROM rajada.replays")
    assert f"run {number}" in settled[1]["details"][0] and "dead/" in settled[1]["details"][-1]
    assert yard.closed() == {"requeued": 1, "dropped": 2}


def test_what_is_exported_comes_in_again_byte_for_byte_and_once(yard: Graveyard, tmp_path: Path) -> None:
    _, died = yard.event()
    noise = bytes(range(256))
    yard.bury(
        [
            died,
            Died(noise, noise, headers=[("x", noise), ("x", None), ("é", b"")]),
            Died(None),
            Died(b"", b""),
        ]
    )
    before = yard.records(DEAD)
    file = tmp_path / "letters.jsonl"
    assert "4 letters written" in yard.run("dlq", "export", "--to", str(file)).stderr
    assert file.stat().st_mode & 0o077 == 0, "it holds what customers wrote"
    there = yard.run("dlq", "import", str(file))
    assert there.returncode == 0 and "0 letters written, 4 are there already" in there.stderr

    def as_it_is(record):  # type: ignore[no-untyped-def]
        return (record.timestamp()[1], record.key(), record.value(), tuple(record.headers() or []))

    other = Graveyard(
        yard.url, yard.bootstrap, Settings(topic_prefix=yard.settings.topic_prefix + "b."), yard.home
    )
    ensure_topics(yard.bootstrap, other.settings)
    assert other.json("dlq", "import", str(file), "--dry-run")["written"] == 0
    assert other.json("dlq", "import", str(file))["written"] == 4
    assert sorted(map(as_it_is, other.records(DEAD)), key=repr) == sorted(map(as_it_is, before), key=repr)
    assert other.json("dlq", "import", str(file))["already"] == 4
    assert len(other.records(DEAD)) == 4
    piped = yard.run("dlq", "export", "--kind", "ai_agent.*")
    assert json.loads(piped.stdout)["value"] == (died.value or b"").decode()
    assert other.json("dlq", "requeue", "--kind", "ai_agent.*", "--yes")["requeued"] == 1


def test_a_file_with_a_wrong_line_is_not_imported(yard: Graveyard) -> None:
    good = '{"key": "k", "value": "v", "headers": []}'
    done = yard.run("dlq", "import", "-", answer=f'{good}\n\n{{"key": 5}}\nnonsense\n')
    assert done.returncode == 9
    assert "line 3: key is no text" in done.stderr and "line 4: is not a JSON object" in done.stderr
    assert "3 lines, 2 wrong. Nothing was written." in done.stderr
    assert yard.records(DEAD) == []
    assert yard.run("dlq", "import", "/nowhere").returncode == 2
    assert yard.run("dlq", "import", "-", answer=good).returncode == 0
    assert "1 is there already" in yard.run("dlq", "import", "-", answer=good).stderr


def test_without_postgres_letters_are_shown_with_a_note_and_nothing_is_requeued(yard: Graveyard) -> None:
    yard.bury([yard.event()[1]])
    away = {"DATABASE_URL": "postgresql://postgres@127.0.0.1:1/none"}
    shown = yard.run("dlq", "ls", **away)
    assert shown.returncode == 0 and "1 open letter among" in shown.stdout
    assert "Which letters were requeued or dropped is not known" in shown.stdout
    refused = yard.run("dlq", "requeue", "--all", "--yes", **away)
    assert refused.returncode == 7 and "Postgres does not answer" in refused.stderr
    assert yard.records(SOURCE) == []


def test_wrong_usage_is_told(yard: Graveyard) -> None:
    assert "--all" in yard.run("dlq", "requeue", "--yes").stderr
    assert yard.run("dlq", "requeue", "dead/x/1", "--yes").returncode == 2
    assert yard.run("dlq", "requeue", "dead/0/1", "parking/0/1").returncode == 2
    assert yard.run("dlq", "requeue", "--all", "--json").returncode == 2
    gone = yard.run("dlq", "requeue", "--resume", "17")
    assert gone.returncode == 3 and "no requeue of number 17" in gone.stderr


def test_a_letter_that_its_topic_does_not_take_stays_and_the_others_go(yard: Graveyard) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    event_id, small = yard.event()
    _, large = yard.event(metadata=json.dumps({"text": "x" * 50_000}))
    yard.bury([small, large])
    entry = ConfigEntry("max.message.bytes", "20000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, yard.settings.topic(SOURCE), incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": yard.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(10)
    done = yard.run("dlq", "requeue", "--all", "--yes")
    assert done.returncode == 10 and "max.message.bytes" in done.stdout
    assert [json.loads(one.value() or b"")["id"] for one in yard.records(SOURCE)] == [event_id]
    assert yard.closed() == {"requeued": 1}
