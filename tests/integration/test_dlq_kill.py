"""BR-45: a requeue that is killed at any point loses nothing, and run again it doubles nothing."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from ops.dlq.desk import Desk
from ops.dlq.requeue import Requeue, Selection, begin, begun_before, progress_of
from ops.dlq.selection import Filter
from ops.sender import Sender
from schemas.codec import decode_command
from schemas.topic_names import CONTROL, DEAD, SOURCE
from settings import Settings
from streams.topics import ensure_topics
from tests.integration.graveyard import Died, Graveyard, headers


@pytest.fixture
def yard(kafka: str, database: str, prefix: str, tmp_path: Path) -> Graveyard:
    settings = Settings(topic_prefix=prefix)
    ensure_topics(kafka, settings)
    return Graveyard(database, kafka, settings, tmp_path / "home")


def filled(yard: Graveyard, count: int) -> None:
    """So many letters: events, a tenth of them jobs, some unreadable."""
    for n in range(count):
        if n % 10 == 0:
            died = yard.job()[1]
        elif n % 25 == 1:
            died = Died(f"\x00 no. {n}".encode())
        else:
            died = yard.event()[1]
        yard.bury_soon(died)
    assert yard.producer.flush(60) == 0


def audited(yard: Graveyard, count: int) -> None:
    """Each letter has one copy, all under one run's number; all letters are still there and closed."""
    assert yard.closed() == {"requeued": count}
    assert len(yard.records(DEAD)) == count
    copies = yard.records(SOURCE) + yard.records(CONTROL)
    of = Counter(headers(one)["copied-from"] for one in copies)
    assert len(of) == count, "each letter has a copy"
    doubled = {place: n for place, n in of.items() if n > 1}
    assert not doubled, "and none has two"
    ((number,),) = yard.execute("SELECT replay FROM rajada.replays WHERE finished_at IS NOT NULL")
    assert {headers(one)["replay"] for one in copies} == {str(number).encode()}
    identities = Counter(
        (json.loads(one.value() or b"")["id"], headers(one)["replay"])
        for one in copies
        if (one.value() or b"").startswith(b"{")
    )
    orders = Counter(decode_command(one.value() or b"").id for one in yard.records(CONTROL))
    assert max(identities.values()) == 1 and max(orders.values()) == 1


def killed_until_done(yard: Graveyard, rate: int, kills: int, seed: int) -> int:
    """Run the same command again and again, killed at random; returns how often it was killed at work."""
    dice, killed = random.Random(seed), 0
    command = yard.command("dlq", "requeue", "--all", "--yes", "--json", "--rate", str(rate))
    while True:
        process = subprocess.Popen(
            command, env=yard.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if killed < kills:
            before = done(yard)
            while process.poll() is None and done(yard) == before:
                time.sleep(0.01)
            time.sleep(dice.uniform(0.0, 0.3))
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                killed += 1
        told, complaint = process.communicate(timeout=120)
        if process.returncode == 0:
            return killed
        assert process.returncode == -signal.SIGKILL, complaint + told


def done(yard: Graveyard) -> int:
    """Letters that a run has recorded."""
    rows = yard.execute("SELECT (progress ->> 'requeued')::int FROM rajada.replays")
    return int(rows[0][0] or 0) if rows else -1


def test_br_45_a_requeue_killed_at_random_points_ends_with_each_letter_once(yard: Graveyard) -> None:
    filled(yard, 500)
    assert killed_until_done(yard, rate=250, kills=3, seed=1) == 3
    audited(yard, 500)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_br_45_ten_thousand_letters_and_many_kills(yard: Graveyard, seed: int) -> None:
    filled(yard, 10_000)
    assert killed_until_done(yard, rate=1_000, kills=10, seed=seed) >= 8
    audited(yard, 10_000)


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("page", [0, 1, 4])
@pytest.mark.parametrize("where", ["before the copies", "after some", "before the record"])
def test_br_45_an_end_between_any_two_steps_is_made_good(
    yard: Graveyard, monkeypatch: pytest.MonkeyPatch, page: int, where: str
) -> None:
    """In one process, so that it ends exactly there: the next life finds what the last has copied."""
    filled(yard, 48)
    monkeypatch.setenv("DATABASE_URL", yard.url)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", yard.bootstrap)
    settings = Settings(topic_prefix=yard.settings.topic_prefix)
    chosen = Filter()

    class Mortal(Sender):
        pages = 0

        def send(self, copies):  # type: ignore[no-untyped-def]
            if Mortal.pages == page and where != "before the record":
                super().send(copies[: 0 if where == "before the copies" else len(copies) // 2])
                raise Killed
            Mortal.pages += 1
            refused = super().send(copies)
            if Mortal.pages == page + 1 and where == "before the record":
                raise Killed
            return refused

    with Desk(settings, DEAD, rows_needed=True) as desk:
        desk.lock()
        ranges = desk.ranges(chosen)
        stored = begin(desk, Selection(chosen, desk.topic_id, ranges, letters=48))
        with pytest.raises(Killed):
            # 16 a second are 8 a page
            Requeue(desk, stored, Mortal(desk.bootstrap, settings), 16.0, NoWait()).work(
                lambda progress: None
            )
    with Desk(settings, DEAD, rows_needed=True) as desk:
        desk.lock()
        found = begun_before(desk, Selection(chosen, desk.topic_id, {}))
        assert found is not None and found.number == stored.number
        assert progress_of(found).requeued == page * 8
        sender = Sender(desk.bootstrap, settings)
        again = Requeue(desk, found, sender, None, threading.Event(), resumed=True)
        assert again.work(lambda progress: None).progress.requeued == 48
    audited(yard, 48)


def test_br_45_a_letter_copied_by_a_run_that_was_killed_is_not_copied_by_another_run(
    yard: Graveyard, monkeypatch: pytest.MonkeyPatch
) -> None:
    event_id, died = yard.event()
    yard.bury([died])
    monkeypatch.setenv("DATABASE_URL", yard.url)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", yard.bootstrap)
    settings = Settings(topic_prefix=yard.settings.topic_prefix)

    class Mortal(Sender):
        def send(self, copies):  # type: ignore[no-untyped-def]
            super().send(copies)
            raise Killed

    with Desk(settings, DEAD, rows_needed=True) as desk:
        stored = begin(desk, Selection(Filter(), desk.topic_id, desk.ranges(Filter()), letters=1))
        with pytest.raises(Killed):
            Requeue(desk, stored, Mortal(desk.bootstrap, settings), None, threading.Event()).work(
                lambda progress: None
            )
    told = yard.run("dlq", "ls")
    assert f"`rajada dlq requeue --resume {stored.number}` goes on" in told.stdout
    assert yard.json("dlq", "requeue", "--id", event_id, "--yes")["requeued"] == 1
    (copy,) = yard.records(SOURCE)
    assert headers(copy)["replay"] == str(stored.number).encode()
    assert yard.json("dlq", "requeue", "--resume", str(stored.number))["requeued"] == 0
    assert len(yard.records(SOURCE)) == 1 and "unfinished" not in yard.run("dlq", "ls").stdout


def test_two_requeues_at_once_are_one(yard: Graveyard) -> None:
    filled(yard, 60)
    slow = subprocess.Popen(
        yard.command("dlq", "requeue", "--all", "--yes", "--rate", "0.5"),
        env=yard.environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    while done(yard) <= 0:
        assert slow.poll() is None
        time.sleep(0.05)
    second = yard.run("dlq", "requeue", "--all", "--yes")
    assert second.returncode == 5 and "Another command requeues" in second.stderr
    assert yard.run("dlq", "requeue", "--all", "--dry-run").returncode == 0
    slow.send_signal(signal.SIGINT)
    told, _ = slow.communicate(timeout=30)
    assert slow.returncode == 130 and "Stopped; the same command goes on." in told
    assert "Goes on with requeue" in yard.run("dlq", "requeue", "--all", "--yes").stdout
    audited(yard, 60)


class NoWait(threading.Event):
    """A rate that cuts pages but takes no time."""

    def wait(self, timeout: float | None = None) -> bool:
        return False
