"""`rajada forget` on a real Kafka and a real Postgres: gone from where we hold it, told where it remains."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from schemas.codec import decode_command
from schemas.topic_names import CONTROL, DEAD
from settings import Settings
from streams.topics import ensure_topics
from tests.integration.graveyard import Died, Graveyard, headers

PHONE = "5511912345678"


@pytest.fixture
def yard(kafka: str, database: str, prefix: str, tmp_path: Path) -> Graveyard:
    settings = Settings(topic_prefix=prefix)
    ensure_topics(kafka, settings)
    made = Graveyard(database, kafka, settings, tmp_path / "home")
    made.execute("INSERT INTO organizations (id) VALUES (%s)", made.organization)
    return made


def contact_of(died: Died) -> str:
    return (died.key or b"").decode().rpartition(":")[2]


def known(yard: Graveyard, died: Died) -> str:
    """Makes the record's contact a row, with a trace."""
    contact = contact_of(died)
    yard.execute(
        "INSERT INTO contacts (id, organization_id, phone_number) VALUES (%s, %s, %s)",
        contact, yard.organization, PHONE,
    )  # fmt: skip
    event = json.loads(died.value or b"{}")["id"]
    for facts in ('{"last_error": "x"}', '{"conversation_id": "y"}'):
        yard.execute(
            "INSERT INTO rajada.trace"
            " (at, organization_id, contact_id, event_id, stage, status, outcome, facts)"
            " VALUES (now(), %s, %s, %s, 'decide', 'dead', 'contact_missing', %s::jsonb)",
            yard.organization, contact, event, facts,
        )  # fmt: skip
    return contact


def whole_log(yard: Graveyard) -> bytes:
    """Every byte that can be read of the dead letters."""
    parts = [
        part
        for one in yard.records(DEAD)
        for part in (one.key(), one.value(), *headers(one).values())
        if part is not None
    ]
    return b"\n".join(part.encode() if isinstance(part, str) else part for part in parts)


def test_letters_trace_and_state_go_and_what_remains_is_told(yard: Graveyard) -> None:
    _, ana = yard.event()
    contact = known(yard, ana)
    unreadable = Died(f"\xff {contact} wrote".encode("latin-1"), ana.key)
    link = Died(json.dumps({"phone": f"+{PHONE}", "name": "Ana"}).encode(), None)
    yard.bury([ana, unreadable, link])
    _, other = yard.event()
    yard.bury([other])

    dry = yard.json("forget", contact, "--dry-run")
    nothing = {"open_jobs": 0, "group_links": 0, "open_group_links": 0}
    assert dry["found"] == {"trace": 2, "letters": 3, **nothing} and dry["erased"] is None
    assert contact.encode() in whole_log(yard)
    refused = yard.run("forget", contact, answer="n\n")
    assert refused.returncode == 1 and "3 dead letters" in refused.stdout

    late = yard.run("forget", contact, "--yes", "--timeout", "0.3", "--json")
    assert late.returncode == 11, "no worker runs here"
    told = json.loads(late.stdout)
    assert told["erased"]["letters"] == 3
    orders = {one.key(): decode_command(one.value() or b"").action for one in yard.records(CONTROL)}
    organization = yard.organization.encode()
    assert orders == {
        organization + b":" + contact.encode(): "forget",
        organization + b":+" + PHONE.encode(): "forget",
    }

    assert contact.encode() not in whole_log(yard) and PHONE.encode() not in whole_log(yard)
    replaced = [one for one in yard.records(DEAD) if "erased" in headers(one)]
    assert len(replaced) == 3 and headers(replaced[0])["reason"]
    assert yard.json("dlq", "ls")["letters"] == 1, "what replaces them is nothing to settle"
    ((count,),) = yard.execute("SELECT count(*) FROM rajada.trace WHERE contact_id = %s", contact)
    ((left,),) = yard.execute("SELECT count(*) FROM rajada.trace WHERE facts IS NOT NULL")
    assert (count, left) == (0, 0)
    ((status,),) = yard.execute("SELECT DISTINCT status FROM rajada.trace")
    assert status == "dead", "that something ended, and how, stays"
    where = {one["where"]: one for one in told["remains"]}
    source = where[yard.settings.topic("ai_agent.dispatch_requested")]
    assert source["until_ms"] > time.time() * 1000 + 6 * 24 * 3600 * 1000
    assert any("changelog" in name for name in where)
    again = json.loads(yard.run("forget", contact, "--yes", "--timeout", "0.3", "--json").stdout)
    assert again["erased"] == {"trace": 0, "letters": 0}


def test_what_can_not_be_deleted_yet_is_named_and_goes_the_next_time(yard: Graveyard) -> None:
    _, ana = yard.event()
    contact = known(yard, ana)
    partition = _partition(ana)
    _, stranger = next(one for one in (yard.event() for _ in range(500)) if _partition(one[1]) == partition)
    yard.bury([stranger, ana])
    done = yard.run("forget", contact, "--yes", "--timeout", "0.2")
    assert f"dead/{partition}/1" in done.stdout and "settle the open letters before them" in done.stdout
    assert contact.encode() in whole_log(yard), "it can't be deleted without the open one"
    yard.json("dlq", "drop", f"dead/{partition}/0", "--because", "test", "--yes")
    yard.run("forget", contact, "--organization", yard.organization, "--yes", "--timeout", "0.2")
    assert contact.encode() not in whole_log(yard)

    shown = yard.run("dlq", "ls", "--closed", "--list", "--json")
    assert contact not in shown.stdout


def linked(yard: Graveyard, phone: str, status: str = "sent") -> tuple[str, str]:
    """The event and the job of a group link to a phone, with a trace that names neither contact nor phone."""
    event, job = str(uuid4()), str(uuid4())
    yard.execute(
        "INSERT INTO group_link_dispatch_queue (id, organization_id, enrolment_id, flow, phone, group_link,"
        " template_name, template_language, status) VALUES (%s, %s, %s, 'personal', %s, 'g', 't', 'pt', %s)",
        job, yard.organization, job, phone, status,
    )  # fmt: skip
    yard.execute(
        "INSERT INTO event_log (id, organization_id, event_type, entity_kind, entity_id, status)"
        " VALUES (%s, %s, 'group_link.dispatch_requested', 'group_link', %s, 'done')",
        event, yard.organization, job,
    )  # fmt: skip
    for about, own, stage in ((event, job, "enqueue"), (None, job, "execute")):
        yard.execute(
            "INSERT INTO rajada.trace (at, organization_id, event_id, job_id, stage, status, outcome, facts)"
            " VALUES (now(), %s, %s, %s, %s, 'done', 'job', '{\"provider_message_id\": \"wamid.x\"}')",
            yard.organization, about, own, stage,
        )  # fmt: skip
    return event, job


def test_what_the_trace_tells_of_group_links_goes_with_the_phone(yard: Graveyard) -> None:
    contact = str(uuid4())
    yard.execute(
        "INSERT INTO contacts (id, organization_id, phone_number) VALUES (%s, %s, %s)",
        contact, yard.organization, "+55 (11) 91234-5678",
    )  # fmt: skip
    linked(yard, f"+{PHONE}")
    linked(yard, f"+{PHONE}", "pending")
    other, _ = linked(yard, "+5511900000000")
    (_, died) = yard.event()
    dead = replace(died, value=json.dumps({**json.loads(died.value or b""), "phone": f"+{PHONE}"}).encode())
    yard.bury([dead])
    yard.execute(
        "INSERT INTO rajada.trace (at, organization_id, event_id, stage, status, outcome, facts)"
        " VALUES (now(), %s, %s, 'collect', 'dead', 'not_json', '{\"last_error\": \"x\"}')",
        yard.organization, json.loads(dead.value or b"")["id"],
    )  # fmt: skip
    dry = yard.json("forget", contact, "--dry-run")
    assert dry["found"] == {
        "trace": 4, "letters": 1, "open_jobs": 0, "group_links": 2, "open_group_links": 1,
    }  # fmt: skip
    asked = yard.run("forget", contact, answer="n\n")
    assert asked.returncode == 1 and "1 group link that is still to be sent" in asked.stdout
    done = json.loads(yard.run("forget", contact, "--yes", "--timeout", "0.2", "--json").stdout)
    assert done["erased"]["trace"] == 5, "that of the letter, too"
    assert any("group_link_dispatch_queue" in one["where"] for one in done["remains"])
    told = yard.execute(
        "SELECT event_id::text FROM rajada.trace WHERE facts IS NOT NULL AND event_id IS NOT NULL"
    )
    assert told == [(other,)]


def test_somebody_who_is_a_phone_alone_is_forgotten_by_it(yard: Graveyard) -> None:
    linked(yard, f"+{PHONE}")
    assert yard.run("forget", "--phone", PHONE, "--yes").returncode == 2, "of which organization?"
    assert yard.run("forget", "--phone", "123", "--organization", yard.organization, "--yes").returncode == 2
    meant = ["forget", "--phone", PHONE, "--organization", yard.organization]
    thread = threading.Thread(target=worker_that_forgets, args=[yard, PHONE, None])
    thread.start()
    done = yard.run(*meant, "--yes")
    thread.join()
    assert done.returncode == 0, done.stderr
    assert "…5678" in done.stdout and PHONE not in done.stdout
    (order,) = yard.records(CONTROL)
    assert order.key() == f"{yard.organization}:+{PHONE}".encode()
    facts = "SELECT count(*) FROM rajada.trace WHERE facts ? 'provider_message_id'"
    assert yard.execute(facts) == [(0,)]


def worker_that_forgets(yard: Graveyard, who: str, contact: str | None) -> None:
    """Tells what a worker does of the order that it finds under the key."""
    deadline = time.monotonic() + 30
    while not (records := yard.records(CONTROL)) and time.monotonic() < deadline:
        time.sleep(0.1)
    order = next(one for one in records if who.encode() in (one.key() or b""))
    facts = json.dumps({"command": decode_command(order.value() or b"").id, "jobs_left": 2})
    yard.execute(
        "INSERT INTO rajada.trace (at, organization_id, contact_id, stage, status, outcome, facts)"
        " VALUES (now(), %s, %s, 'control', 'done', 'forgotten', %s::jsonb)",
        yard.organization, contact, facts,
    )  # fmt: skip


def test_a_worker_that_has_forgotten_is_waited_for(yard: Graveyard) -> None:
    _, ana = yard.event()
    contact = known(yard, ana)
    thread = threading.Thread(target=worker_that_forgets, args=[yard, contact, contact])
    thread.start()
    done = yard.run("forget", contact, "--yes")
    thread.join()
    assert done.returncode == 0 and "2 jobs have not ended" in done.stdout


def test_nobody_knows_the_contact(yard: Graveyard) -> None:
    unknown = yard.run("forget", str(uuid4()), "--yes")
    assert unknown.returncode == 12 and "--organization" in unknown.stderr
    assert yard.run("forget", "Ana", "--yes").returncode == 2
    assert yard.run("forget", str(uuid4()), "--json").returncode == 2


def _partition(died: Died) -> int:
    from aiokafka.partitioner import murmur2

    return int(murmur2(died.key)) % 2**31 % 8
