"""An event of one organization that names another's rows finds none of them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import psycopg
import pytest

from db.pool import async_pool
from streams.decide import Enqueue, decide
from streams.facts import FactReader
from streams.question import AskedEvent, Facts, Question, Rules
from tests.integration.crm_tables import Tables, crm_database, replace_rows
from tests.unit.builders import uid

NOW_MS = time.time_ns() // 1_000_000
PARTS = ("conversation", "contact", "session", "message")


@pytest.fixture(scope="module")
def crm(postgres: str) -> Iterator[str]:
    with crm_database(postgres, f"tenants_{uuid.uuid4().hex[:10]}") as url:
        with psycopg.connect(url, autocommit=True) as connection:
            replace_rows(connection, _tables())
        yield url


def _tables() -> Tables:
    """Two clinics alike, `a` and `b`: each with a patient whose message an agent would answer."""
    tables: Tables = {"organizations": [{"id": uid(whose), "status": "active"} for whose in "ab"]}
    for whose in "ab":
        of = {"organization_id": uid(whose)}
        rows: Tables = {
            "channel_sessions": [{**of, "id": uid(f"session {whose}")}],
            "contacts": [{**of, "id": uid(f"contact {whose}")}],
            "conversations": [
                {**of, "id": uid(f"conversation {whose}"), "contact_id": uid(f"contact {whose}"),
                 "channel_session_id": uid(f"session {whose}")}
            ],
            "messages": [
                {**of, "id": uid(f"message {whose}"), "conversation_id": uid(f"conversation {whose}"),
                 "contact_id": uid(f"contact {whose}"), "direction": "inbound", "created_at": NOW_MS}
            ],
            "ai_agents": [{**of, "id": uid(f"agent {whose}"), "published_version_id": uid(f"v {whose}")}],
            "ai_agent_versions": [
                {**of, "id": uid(f"v {whose}"), "agent_id": uid(f"agent {whose}"),
                 "channel_session_id": uid(f"session {whose}"), "status": "published"}
            ],
        }  # fmt: skip
        for table, more in rows.items():
            tables.setdefault(table, []).extend(more)
    return tables


def question(organization: str, **parts: str) -> Question:
    """A window of this organization; each part is of `a` unless another's is said."""
    ids = {part: uid(f"{part} {parts.get(part, organization)}") for part in PARTS}
    return Question(
        organization_id=uid(organization),
        conversation_id=ids["conversation"],
        contact_id=ids["contact"],
        channel_session_id=ids["session"],
        events=(AskedEvent(uid("event"), ids["message"], NOW_MS),),
        now_ms=NOW_MS,
        deadline_ms=NOW_MS,
    )


async def judged(url: str, *questions: Question) -> list[object]:
    async with async_pool(url, name="facts", min_size=0, max_size=1) as pool:
        read = await FactReader(pool).read(list(questions))
    assert all(isinstance(one, Facts) for one in read), read
    return [
        decide(asked, one, Rules())
        for asked, one in zip(questions, read, strict=True)
        if isinstance(one, Facts)
    ]


async def test_rows_of_another_organization_are_not_there_for_a_decision(crm: str) -> None:
    own_a, own_b, *mixed = await judged(
        crm, question("a"), question("b"), *(question("a", **{part: "b"}) for part in PARTS[:3]),
        question("a", **dict.fromkeys(PARTS, "b")),
    )  # fmt: skip
    assert isinstance(own_a, Enqueue) and isinstance(own_b, Enqueue)
    assert not [one for one in mixed if isinstance(one, Enqueue)], mixed
