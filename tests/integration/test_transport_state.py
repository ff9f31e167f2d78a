"""Where a worker's state comes from: local disk, a standby, the changelog; and that it is right."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter

import orjson
import pytest

from chaos.workers import ROOT, Worker
from streams.transport.token import MARKER, Reader

from .transport_lab import PARTITIONS, Lab, exit_code, laboratory, until

KEYS = 60


def load(lab: Lab, rounds: int) -> None:
    """Records of all keys, processed and committed."""
    producer = lab.producer()
    for i in range(rounds * KEYS):
        producer.produce(lab.topic, b"x", f"k{i % KEYS}", (i % KEYS) % PARTITIONS)
    producer.flush()
    lab.wait_committed()


def counted(lab: Lab) -> Counter[int]:
    """How many keys are counted how often, by what a reader of the changelog sees."""
    state, readers = {}, {}
    for message in lab.log.read(lab.changelog, PARTITIONS):
        accepted = readers.setdefault(message.partition(), Reader()).accepts(message.headers())
        if accepted and message.key() != MARKER:
            state[message.key()] = orjson.loads(message.value())["n"]
    return Counter(state.values())


def recovered(worker: Worker) -> list[tuple[int, int]]:
    """Keys held and changelog records read, for each recovery of the worker's table."""
    told = re.findall(r"table recovered\s+keys=(\d+).*?read=(\d+)", worker.log.read_text())
    return [(int(keys), int(read)) for keys, read in told]


def snapshots(lab: Lab) -> int:
    return len(list((lab.folder / "data").rglob("*.snapshot")))


@pytest.fixture
def disk(tmp_path):
    """Settings of workers that share a disk and write to it often."""
    return {"CHAOS_DATA": str(tmp_path / "data"), "CHAOS_SNAPSHOT": "1"}


@pytest.mark.long
def test_a_restart_on_the_same_machine_reads_only_what_came_since(kafka, prefix, tmp_path, disk):
    with laboratory(kafka, prefix, tmp_path, **disk) as lab:
        worker = lab.start()
        load(lab, 2)
        worker.process.terminate()
        assert exit_code(worker) == 0
        assert snapshots(lab) == PARTITIONS
        second = lab.start()
        assert recovered(second) == [(KEYS, 0)]
        load(lab, 2)
        assert counted(lab) == {4: KEYS}

        second.process.send_signal(signal.SIGKILL)  # what was written last is not on disk
        second.process.wait()
        third = lab.start()
        assert recovered(third)[0][0] == KEYS
        load(lab, 1)
        assert counted(lab) == {5: KEYS}


@pytest.mark.long
def test_a_damaged_snapshot_is_ignored_and_so_is_one_of_a_changelog_made_anew(kafka, prefix, tmp_path, disk):
    with laboratory(kafka, prefix, tmp_path, **disk) as lab:
        worker = lab.start()
        load(lab, 3)
        worker.process.terminate()
        assert exit_code(worker) == 0
        damaged, *_ = (tmp_path / "data").rglob("*.snapshot")
        damaged.write_bytes(damaged.read_bytes()[:-40])
        second = lab.start()
        ((keys, read),) = recovered(second)
        assert keys == KEYS
        assert 0 < read <= 3 * KEYS // PARTITIONS, "one partition from the changelog"
        assert "its digest is wrong" in second.log.read_text()
        load(lab, 1)
        assert counted(lab) == {4: KEYS}
        second.process.terminate()
        assert exit_code(second) == 0

        lab.remake(lab.changelog)
        third = lab.start()
        assert recovered(third) == [(0, 0)]
        assert third.log.read_text().count("made anew since") == PARTITIONS


@pytest.mark.long
def test_a_standby_takes_over_with_what_it_has_followed(kafka, prefix, tmp_path):
    with laboratory(kafka, prefix, tmp_path, CHAOS_STANDBY="1") as lab:
        first, second = lab.start(), lab.start()
        until(lambda: min(len(recovered(first)), len(recovered(second))) >= 1 and len(recovered(first)) >= 2)
        load(lab, 5)
        before = len(recovered(second))
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        until(lambda: len(recovered(second)) > before)
        keys, read = recovered(second)[-1]
        assert keys == KEYS
        assert read <= 10, "it read again what it had followed"
        load(lab, 1)
        assert counted(lab) == {6: KEYS}


def test_a_slow_coordinator_is_asked_once_for_all_committed_offsets_and_not_for_each(kafka, prefix, tmp_path):
    with laboratory(kafka, prefix, tmp_path, CHAOS_LOOKUP_MS="300") as lab:
        lab.write_changelog(60)
        worker = lab.start()
        asked = worker.log.read_text().count("LOOKUP")
        assert 1 <= asked <= 4, "of 12 partitions of two topics and 6 of the changelog"


def test_faust_reset_drops_what_is_on_disk(kafka, prefix, tmp_path, disk):
    with laboratory(kafka, prefix, tmp_path, **disk) as lab:
        worker = lab.start()
        load(lab, 1)
        worker.process.terminate()
        assert exit_code(worker) == 0
        assert snapshots(lab) == PARTITIONS
        command = [sys.executable, "-m", "faust", "-A", "chaos.app", "reset"]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **lab.workers.environment}, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert snapshots(lab) == 0
        assert recovered(lab.start())[0][0] == KEYS
