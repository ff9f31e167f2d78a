"""What the doctor says of server, role, publication and slot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from db.replication import SlotStatus
from ops.doctor.replication import (
    MB,
    Publication,
    Server,
    free_slots,
    publication,
    role,
    slot_verdict,
    wal_level,
)

SERVER = Server("logical", False, 10, 3, 10, 3, -1, "rajada", True)
SLOT = SlotStatus("pgoutput", "crm", True, "reserved", 1, 2 * MB, MB)
FULL = Publication(
    True,
    True,
    "((event_type = ANY (ARRAY['ai_agent.dispatch_requested'::text, 'group_link.dispatch_requested'::text]))"
    " AND (status = 'pending'::text))",
    True,
)
BOTH = ("event_type", "status")


def test_only_the_logical_level_of_a_primary_will_do() -> None:
    assert wal_level(SERVER).level == "ok"
    replica = wal_level(replace(SERVER, wal_level="replica"))
    assert replica.level == "fail" and "ALTER SYSTEM SET wal_level" in replica.advice
    assert wal_level(replace(SERVER, in_recovery=True)).level == "fail"


def test_the_role_must_be_allowed_to_replicate() -> None:
    assert role(SERVER, has_slot=False).level == "ok"
    beside = role(replace(SERVER, may_replicate=False, other="rajada_relay"), has_slot=True)
    assert beside.level == "ok" and "rajada_relay may replicate" in beside.found
    refused = role(replace(SERVER, may_replicate=False), has_slot=True)
    assert refused.level == "fail" and "ALTER ROLE rajada REPLICATION" in refused.advice


@pytest.mark.parametrize(
    ("used_slots", "used_senders", "slot", "level"),
    [
        (9, 9, None, "ok"),
        (10, 0, None, "fail"),
        (10, 0, SLOT, "ok"),
        (0, 10, None, "fail"),
        (5, 10, replace(SLOT, active=False), "fail"),
        (10, 10, SLOT, "ok"),
    ],
)
def test_there_must_be_room_for_what_is_not_there_yet(
    used_slots: int, used_senders: int, slot: SlotStatus | None, level: str
) -> None:
    server = replace(SERVER, used_slots=used_slots, used_senders=used_senders)
    assert free_slots(server, slot).level == level


@pytest.mark.parametrize(
    ("found", "filterable", "may_make", "level", "word"),
    [
        (FULL, BOTH, True, "ok", "filter on event_type and status"),
        (None, BOTH, True, "warn", "there is no publication"),
        (None, BOTH, False, "fail", "our role can't make it"),
        (replace(FULL, has_table=False), BOTH, True, "fail", "the event log"),
        (replace(FULL, inserts=False), BOTH, True, "fail", "inserts"),
        (replace(FULL, whole_rows=False), BOTH, True, "fail", "leaves columns"),
        (replace(FULL, row_filter=None), BOTH, True, "warn", "no row filter"),
        (replace(FULL, row_filter=None), (), True, "ok", "event_type and status can't be in its filter"),
        (replace(FULL, row_filter="(status = 'pending')"), ("status",), True, "ok", "event_type can't be"),
        (
            replace(FULL, row_filter="(event_type = 'ai_agent.dispatch_requested')"),
            BOTH, True, "fail", "does not publish group_link.dispatch_requested",
        ),
    ],
)  # fmt: skip
def test_the_publication_must_have_every_pending_event(
    found: Publication | None, filterable: tuple[str, ...], may_make: bool, level: str, word: str
) -> None:
    verdict = publication("rajada", found, filterable, may_make=may_make)
    assert verdict.level == level
    assert word in verdict.found
    assert bool(verdict.advice) == (level != "ok")


def said(
    slot: SlotStatus | None, made_before: bool = True, others: tuple[str, ...] = (), keep: int = -1
) -> tuple[str, str]:
    verdict = slot_verdict("rajada", slot, made_before, others, "crm", keep)
    assert bool(verdict.advice) == (verdict.level != "ok")
    return verdict.level, f"{verdict.found} → {verdict.advice}"


def test_a_slot_that_is_read_is_well() -> None:
    assert said(SLOT) == ("ok", "rajada is read, 1.0 MB behind, 2.0 MB of WAL kept → ")


@pytest.mark.parametrize(
    ("slot", "made_before", "others", "level", "word"),
    [
        (None, True, (), "fail", "is gone"),
        (None, False, (), "warn", "at its first start"),
        (None, False, ("debezium_ai",), "ok", "debezium_ai"),
        (None, True, ("debezium_ai",), "fail", "is gone"),
        (replace(SLOT, wal_status="lost", active=False), True, (), "fail", "is lost"),
        (replace(SLOT, wal_status="unreserved"), True, (), "fail", "about to be lost"),
        (replace(SLOT, active=False), True, (), "warn", "nobody reads"),
        (replace(SLOT, plugin="test_decoding"), True, (), "fail", "RAJADA_SLOT"),
        (replace(SLOT, database="other"), True, (), "fail", "RAJADA_SLOT"),
    ],
)
def test_each_trouble_of_a_slot_has_its_words(
    slot: SlotStatus | None, made_before: bool, others: tuple[str, ...], level: str, word: str
) -> None:
    found = said(slot, made_before, others)
    assert found[0] == level
    assert word in found[1]


def test_kept_wal_is_measured_against_the_servers_bound_or_a_gigabyte() -> None:
    kept = replace(SLOT, retained_bytes=600 * MB)
    assert said(kept)[0] == "ok"
    assert said(kept, keep=2_000 * MB)[0] == "ok"
    assert "at 1000 MB the slot is lost" in said(kept, keep=1_000 * MB)[1]
    assert "the disk may fill" in said(replace(SLOT, retained_bytes=1_100 * MB))[1]
