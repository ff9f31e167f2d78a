"""How many windows a second are decided: facts read from Postgres, in batches of 500, and judged.

`python -m bench.decisions [--batches N] [--batch-size N] [--messages N]` makes a database of its own on
`DATABASE_URL`, or on an embedded Postgres, fills it with a middling CRM's rows (200 organizations, 40k
conversations, 400k messages, 150k jobs) and drops it. Bar: 5,000 windows a second, over one connection.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from bench.servers import postgres
from db.migrate import migrate
from db.pool import async_pool
from streams.decide import Decision, Stop, decide
from streams.facts import FactReader
from streams.question import AskedEvent, Facts, Question, Rules

DATABASE = "rajada_bench_decisions"
BAR_RATE, GOAL_RATE = 5_000, 10_000
FILL = Path(__file__).with_name("decisions_fill.sql")

ASK = """
SELECT k.organization_id::text, k.id::text, k.contact_id::text, k.channel_session_id::text,
    array_agg(m.id::text ORDER BY m.created_at)
FROM (SELECT * FROM conversations ORDER BY id LIMIT %s OFFSET %s) k
CROSS JOIN LATERAL (
    SELECT id, created_at FROM messages WHERE organization_id = k.organization_id AND conversation_id = k.id
        AND direction = 'inbound' ORDER BY coalesce(sent_at, created_at) DESC LIMIT %s
) m
GROUP BY k.organization_id, k.id, k.contact_id, k.channel_session_id
"""


@contextmanager
def bench_database(admin_url: str) -> Iterator[str]:
    """URL of a filled database that is dropped at the end."""
    name = sql.Identifier(DATABASE)
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
        admin.execute(sql.SQL("CREATE DATABASE {}").format(name))
        url = make_conninfo(admin_url, dbname=DATABASE)
        try:
            migrate(url, crm="ours")
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(FILL.read_bytes())
            yield url
        finally:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def questions_of(url: str, batch_size: int, batches: int, messages: int) -> list[list[Question]]:
    """Batches of windows over conversations that exist, each of its newest messages."""
    now_ms = time.time_ns() // 1_000_000
    with psycopg.connect(url) as connection:
        rows = connection.execute(ASK, (batch_size * batches, 0, messages)).fetchall()
        numbers = {
            str(row[0]): row[1]
            for row in connection.execute(
                "SELECT md5('m' || n)::uuid::text, md5('e' || n)::uuid::text "
                "FROM generate_series(1, 400000) n"
            )
        }
    random.Random(1).shuffle(rows)
    questions = [
        Question(
            organization_id=organization,
            conversation_id=conversation,
            contact_id=contact,
            channel_session_id=session,
            events=tuple(AskedEvent(numbers[message], message, now_ms) for message in asked),
            now_ms=now_ms,
            deadline_ms=now_ms,
        )
        for organization, conversation, contact, session, asked in rows
    ]
    return [questions[start : start + batch_size] for start in range(0, len(questions), batch_size)]


def backend_cpu_s(pid: int) -> float:
    """Processor time that a Postgres process on this machine has used; 0 where it can't be seen.

    On a machine that is busy with other things it says more than the wall clock.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def label(decision: Decision) -> str:
    """What a decision is counted as."""
    return decision.reason if isinstance(decision, Stop) else type(decision).__name__


@dataclass(frozen=True, slots=True)
class Measured:
    """One pass over all batches."""

    windows: int
    took: tuple[float, ...]
    """Seconds of each batch, reading and judging."""
    judging_s: float
    cpu_s: float
    """Of client and server."""
    tally: Counter[str]

    @property
    def rate(self) -> float:
        """Windows a second."""
        return self.windows / sum(self.took)

    @property
    def cpu_us(self) -> float:
        """CPU microseconds a window, client and server."""
        return self.cpu_s / self.windows * 1e6


async def measure(url: str, asked: list[list[Question]]) -> Measured:
    """Decide every batch over one connection."""
    rules, tally, took, judging = Rules(), Counter[str](), list[float](), 0.0
    async with async_pool(url, name="bench", max_size=1) as pool:
        reader = FactReader(pool)
        # What a due window asks for was written seconds ago: the server has it in memory.
        for batch in asked:
            await reader.read(batch)
        async with pool.connection() as connection:
            pid = connection.info.backend_pid
        cpu_s = time.process_time() + backend_cpu_s(pid)
        for batch in asked:
            started = time.perf_counter()
            read = await reader.read(batch)
            judged = time.perf_counter()
            for question, facts in zip(batch, read, strict=True):
                assert isinstance(facts, Facts)
                tally[label(decide(question, facts, rules))] += 1
            ended = time.perf_counter()
            took.append(ended - started)
            judging += ended - judged
        cpu_s = time.process_time() + backend_cpu_s(pid) - cpu_s
    return Measured(sum(map(len, asked)), tuple(took), judging, cpu_s, tally)


def tell(one: Measured, batch_size: int, messages: int) -> None:
    """Print it."""
    print(f"batches of {batch_size}, {messages} messages a window: {one.rate:,.0f} windows/s")
    tenth = statistics.quantiles(one.took, n=10)[0]
    print(
        f"  a batch: quickest tenth {tenth * 1000:.1f} ms ({batch_size / tenth:,.0f} windows/s), "
        f"median {statistics.median(one.took) * 1000:.1f} ms, worst {max(one.took) * 1000:.1f} ms"
    )
    print(f"  judging alone: {one.windows / one.judging_s:,.0f} windows/s")
    print(f"  by the processors' own clocks, client and server: {1e6 / one.cpu_us:,.0f} windows/s")
    print(f"  {dict(one.tally.most_common())}")


def main() -> int:
    """Run the measurement; exit code 1 below the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=500)
    parser.add_argument("--messages", type=int, default=3, help="messages a window")
    given = parser.parse_args()
    with postgres() as admin_url, bench_database(admin_url) as url:
        found = []
        for size, batches in ((given.batch_size, given.batches), (1, 200)):
            found.append(asyncio.run(measure(url, questions_of(url, size, batches, given.messages))))
            tell(found[-1], size, given.messages)
    met = found[0].rate >= BAR_RATE
    print(f"bar: {BAR_RATE:,} windows/s:", "met" if met else "MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
