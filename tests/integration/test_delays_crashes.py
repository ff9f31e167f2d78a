"""Forwarders that are killed, stopped, fenced, and a broker that goes away: each record arrives once."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ops.embedded.kafka import EmbeddedKafka
from tests.integration.delay_lab import MUTE, STUCK, DelayLab, until


@pytest.fixture
def lab(kafka: str, prefix: str, tmp_path: Path) -> Iterator[DelayLab]:
    made = DelayLab(kafka, prefix, tmp_path)
    yield made
    made.close()


def killed_inside_a_transaction(lab: DelayLab, nth: int, timeout_s: int) -> None:
    """Its n-th transaction has everything written and its offsets sent, but isn't committed."""
    marker = lab.folder / "stuck"
    forwarder = lab.start(command=[*STUCK, str(nth), str(marker), str(timeout_s)])
    lab.delay(*[500] * 300, *[1_100] * 300)
    until(marker.exists, 20, forwarder.log)
    assert forwarder.end(signal.SIGKILL) == -signal.SIGKILL


@pytest.mark.parametrize("nth", [1, 2, 4])
def test_killed_inside_a_transaction_nothing_is_lost_or_doubled(lab: DelayLab, nth: int) -> None:
    """Started again on its folder it ends what it had left open, without waiting for any timeout."""
    killed_inside_a_transaction(lab, nth, timeout_s=120)
    lab.start()
    lab.until_arrived(40)
    lab.check()


def test_killed_inside_a_transaction_another_forwarder_goes_on_when_kafka_has_aborted_it(
    lab: DelayLab,
) -> None:
    killed_inside_a_transaction(lab, 2, timeout_s=5)
    lab.start("elsewhere")
    lab.until_arrived(40)
    lab.check()


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_killed_again_and_again_under_load_each_record_arrives_once(lab: DelayLab, seed: int) -> None:
    """Two forwarders; one of them at a time dies by kill -9 and is started again."""
    dice = random.Random(seed)
    several = [lab.start("one"), lab.start("two")]
    for round_ in range(5):
        lab.delay(*(dice.randrange(0, 4_000) for _ in range(800)))
        time.sleep(dice.uniform(0.2, 1.2))
        victim = round_ % 2
        several[victim].end(signal.SIGKILL)
        lab.look(dice.uniform(0.0, 1.0))
        several[victim] = lab.start(("one", "two")[victim], wait=False)
    lab.until_arrived(60)
    lab.check()


def test_a_forwarder_that_stands_still_for_longer_than_its_session_doubles_nothing(lab: DelayLab) -> None:
    first, second = lab.start("one"), lab.start("two")
    lab.delay(*(n * 10 for n in range(600)))
    lab.look(1)
    first.send_signal(signal.SIGSTOP)
    lab.until_arrived(40)
    first.send_signal(signal.SIGCONT)
    lab.delay(*[300] * 200)
    lab.until_arrived(20)
    lab.check(settle_s=2)
    assert (first.end(), second.end()) == (0, 0)


def test_a_forwarder_whose_name_was_taken_takes_it_back_and_doubles_nothing(lab: DelayLab) -> None:
    """Fenced: another producer has its transactional id. It begins a new session."""
    forwarder = lab.start()
    lab.delay(*(n * 4 for n in range(1_000)))
    lab.look(1)
    name = (lab.folder / "home" / "delays-0.id").read_text()
    thief = Producer(
        {"bootstrap.servers": lab.kafka, "transactional.id": f"{lab.prefix}rajada-delays-{name}"}
    )
    thief.init_transactions(20)
    lab.until_arrived(30)
    lab.check()
    assert forwarder.process.poll() is None
    assert "delays_waits" in forwarder.log()


def test_partitions_that_the_client_never_reads_are_read_anew(lab: DelayLab) -> None:
    """What a broker's restart may do to the client, without one: nothing comes, not even the ends."""
    forwarder = lab.start(command=MUTE)
    lab.delay(*[500] * 40)
    lab.until_arrived(20)
    lab.check()
    assert "delays_read_anew" in forwarder.log()


@pytest.fixture
def own_kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(tmp_path / "kafka") as server:
        yield server


@pytest.fixture
def beside(own_kafka: EmbeddedKafka, prefix: str, tmp_path: Path) -> Iterator[DelayLab]:
    made = DelayLab(own_kafka.bootstrap, prefix, tmp_path)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.alone
def test_a_broker_that_is_killed_and_comes_back_loses_and_doubles_nothing(
    own_kafka: EmbeddedKafka, beside: DelayLab
) -> None:
    forwarders = [beside.start("one"), beside.start("two")]
    for _ in range(2):
        beside.delay(*(n * 4 for n in range(1_500)))
        beside.look(1.5)
        own_kafka.kill()
        until(lambda: any(one.state() == "waiting" for one in forwarders), 40)
        own_kafka.start()
        beside.until_arrived(60)
        beside.check()
    for one in forwarders:
        until(lambda one=one: one.state() == "ready", 40, one.log)  # type: ignore[misc]
    assert [one.end() for one in forwarders] == [0, 0]


@pytest.mark.slow
@pytest.mark.alone
def test_started_before_kafka_it_waits_and_says_so(own_kafka: EmbeddedKafka, beside: DelayLab) -> None:
    beside.delay(1_000)
    own_kafka.kill()
    forwarder = beside.start(wait=False)
    until(lambda: forwarder.state() == "waiting", 30, forwarder.log)
    own_kafka.start()
    until(lambda: forwarder.state() == "ready", 60, forwarder.log)
    beside.until_arrived(20)
    beside.check()
    own_kafka.kill()
    until(lambda: forwarder.state() == "waiting", 60, forwarder.log)
    own_kafka.start()
    until(lambda: forwarder.state() == "ready", 60, forwarder.log)  # though there is nothing to forward
    own_kafka.kill()
    until(lambda: forwarder.state() == "waiting", 60, forwarder.log)
    began = time.monotonic()
    assert forwarder.end() == 0
    assert time.monotonic() - began < 15, "a stop must not wait for Kafka"
