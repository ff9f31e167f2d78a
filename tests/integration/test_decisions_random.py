"""On random rows, odd ones too, Postgres' facts and those read in Python give the same decisions."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from db.pool import AsyncPool, async_pool
from streams.decide import Stop, decide
from streams.facts import FactReader
from streams.question import Facts, Rules
from tests.integration.crm_tables import Connection, crm_database, replace_rows
from tests.integration.memory_facts import facts_in_memory
from tests.integration.random_crm import RandomCrm

STATES = 120
WINDOWS = 25
RULES = Rules(allowlist_ttl_days=21, event_max_age_s=None)


@pytest.fixture(scope="module")
def crm(postgres: str) -> Iterator[str]:
    with crm_database(postgres, f"decisions_{uuid.uuid4().hex[:10]}") as url:
        yield url


@pytest.fixture(scope="module")
def rows(crm: str) -> Iterator[Connection]:
    with psycopg.connect(crm, autocommit=True) as connection:
        yield connection


@pytest_asyncio.fixture
async def pool(crm: str) -> AsyncIterator[AsyncPool]:
    async with async_pool(crm, name="decisions", max_size=1) as pool:
        yield pool


async def test_random_states(rows: Connection, pool: AsyncPool) -> None:
    reader, met = FactReader(pool), Counter[str]()
    for seed in range(STATES):
        crm = RandomCrm(seed, time.time_ns() // 1_000_000)
        tables = crm.tables()
        replace_rows(rows, tables)
        questions = [crm.question() for _ in range(WINDOWS)]
        for question, told in zip(questions, await reader.read(questions), strict=True):
            assert isinstance(told, Facts)
            expected = facts_in_memory(tables, question, told.db_now_ms)
            assert _comparable(told) == _comparable(expected), f"seed {seed}: {question}"
            decision = decide(question, told, RULES)
            assert decision == decide(question, expected, RULES)
            met[decision.reason if isinstance(decision, Stop) else type(decision).__name__] += 1
    # the states are worth their time only if they lead everywhere
    assert len(met) >= 13, met


def _comparable(facts: Facts) -> dict[str, Any]:
    """Facts by name, with what is a matter of order or of the millisecond left out."""
    told = {one.name: getattr(facts, one.name) for one in fields(facts)}
    followup, eligibility = told["followup"], told["eligibility"]
    told["followup"] = {one.name: getattr(followup, one.name) for one in fields(followup)}
    told["followup"]["flows"] = frozenset(followup.flows)
    told["followup"]["gap_ms"] = repr(followup.gap_ms)
    if eligibility is not None:
        told["eligibility"] = {one.name: getattr(eligibility, one.name) for one in fields(eligibility)}
        metadata = eligibility.channel_metadata
        told["eligibility"]["now_ms"] = None
        told["eligibility"]["channel_metadata"] = _kept(metadata)
    return told


def _kept(metadata: object) -> object:
    """Of a channel's metadata, what the statement selects."""
    keys = ("disabled", "ai_gate", "ai_gate_mode", "ai_test_phone_numbers")
    kept = {key: metadata.get(key) if isinstance(metadata, dict) else None for key in keys}
    # long integers come as floats
    return {key: float(str(value)) if type(value) in (int, float) else value for key, value in kept.items()}
