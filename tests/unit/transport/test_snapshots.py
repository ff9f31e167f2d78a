"""A snapshot plus what the changelog holds behind it is the state that the whole changelog gives."""

from __future__ import annotations

import asyncio
import os
import random
import time
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from streams.transport import FenceRefused, snapshots
from streams.transport.snapshot import Draft, read
from streams.transport.snapshots import MAX_AGE, Snapshots
from streams.transport.state import State
from streams.transport.token import HEADER, MARKER, Token
from streams.transport.values import Values

from .test_state import Change

KEYS = [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]


@pytest.fixture(autouse=True)
def no_threads(monkeypatch):
    """Each step of a pass takes a turn of the loop: the same order in every run."""

    async def to_thread(function, *args):
        await asyncio.sleep(0)
        return function(*args)

    monkeypatch.setattr(snapshots.asyncio, "to_thread", to_thread)
    monkeypatch.setattr(os, "fsync", lambda _: None)


class Owner:
    """A table with its changelog: what is put becomes durable later, or never."""

    topic_name = "app-t-changelog"

    def __init__(self, log, generation=1):
        self.log = log
        self.local = State(bytes)
        self.local.assign([0])
        replay(self.local, log, 0)
        self.state = self.local.at(0)
        self.state.claim(generation)
        self.token = list(self.state.headers)
        self.in_flight = []
        self.refused = False
        self.append([(MARKER, b"")], self.token)

    def encode(self, value):
        return value

    async def topic_id(self):
        return "id"

    def append(self, pairs, headers):
        for key, value in pairs:
            self.log.append(Change(len(self.log), key, value, headers))
        self.state.covered = len(self.log)

    def put(self, key, value):
        self.local.put(key, value, 0)

    def flush(self):
        for state, keys in self.local.take_dirty().values():
            self.in_flight.append([(key, state.values.encoded(key, bytes)) for key in keys])

    def deliver(self):
        if self.in_flight:
            self.append(self.in_flight.pop(0), self.token)

    async def settled(self, partition, timeout):
        mark = partition.dirty
        for _ in range(20):
            if not (mark and partition.dirty is mark) and not self.in_flight:
                return True
            await asyncio.sleep(0)
        return False

    async def confirm(self):
        if self.refused:
            raise FenceRefused("replaced")


def replay(local, log, start):
    """Read a changelog from an offset to its end."""
    assert local.apply(0, start, len(log), True, log[start:]) or not log


def implied(log):
    """What a reader of the whole changelog has."""
    local = State(bytes)
    local.assign([0])
    replay(local, log, 0)
    return dict(local.items(0))


def kept(owner, folder):
    return Snapshots(owner, lambda: folder, every=1, interval=1.0)


async def restored(log, folder, topic_id="id"):
    """The state of a worker that starts on this machine, and where it began to read."""
    local = State(bytes)
    local.assign([0])
    source = Owner([])
    source.topic_id = lambda: asyncio.sleep(0, topic_id)
    await kept(source, folder).restore(0, local.at(0), bytes)
    start = local.at(0).covered or 0
    replay(local, log, start)
    return dict(local.items(0)), start


@pytest.mark.thorough
async def test_any_crash_leaves_a_snapshot_that_agrees_with_the_changelog(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "SLICE", 2)
    used = 0
    for seed in range(80):
        dice, log = random.Random(seed), []
        folder = tmp_path / str(seed)
        for generation in range(1, 4):  # each owner ends in a crash
            owner = Owner(log, generation)
            keeper, saving = kept(owner, folder), []
            for _ in range(dice.randrange(80)):
                step = dice.choice(["put", "put", "flush", "deliver", "deliver", "save", "turn"])
                if step == "put":
                    owner.put(dice.choice(KEYS), dice.choice([None, b"%d" % dice.randrange(1000)]))
                elif step == "save" and all(task.done() for task in saving):
                    saving.append(asyncio.create_task(keeper.save(0)))
                elif step == "turn":
                    for _ in range(dice.choice([1, 3, 20])):
                        await asyncio.sleep(0)
                elif step != "save":
                    getattr(owner, step)()
            for task in saving:
                task.cancel()
            await asyncio.gather(*saving, return_exceptions=True)
            found, start = await restored(log, folder)
            used += start > 1
            assert found == implied(log), seed
    assert used > 60, "hardly any snapshot came to its end: the test proves nothing"


async def test_a_value_that_never_became_durable_is_in_no_snapshot(tmp_path):
    log = []
    owner = Owner(log)
    owner.put(b"a", b"durable")
    owner.flush()
    owner.deliver()
    owner.put(b"a", b"never")
    assert not await kept(owner, tmp_path).save(0)
    assert await restored(log, tmp_path) == ({b"a": b"durable"}, 0)


async def test_a_replaced_owner_publishes_nothing(tmp_path):
    owner = Owner([])
    owner.put(b"a", b"1")
    owner.flush()
    owner.deliver()
    owner.refused = True
    assert not await kept(owner, tmp_path).save(0)
    assert list(tmp_path.iterdir()) == []


async def test_a_pass_ends_when_its_partition_is_assigned_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "SLICE", 1)
    owner = Owner([])
    for key in KEYS:
        owner.put(key, b"1")
    owner.flush()
    owner.deliver()
    saving = asyncio.create_task(kept(owner, tmp_path).save(0))
    for _ in range(5):
        await asyncio.sleep(0)
    assert list(tmp_path.iterdir()), "it hasn't begun: the test proves nothing"
    owner.local.assign([0])
    assert not await saving
    assert list(tmp_path.iterdir()) == []


async def saved(folder):
    log = [Change(0, b"gone", b"x"), Change(1, b"gone", None)]
    owner = Owner(log)
    owner.put(b"a", b"1")
    owner.flush()
    owner.deliver()
    assert await kept(owner, folder).save(0)
    return log, kept(owner, folder).path(0)


async def test_a_restart_reads_only_what_came_later_and_knows_the_token(tmp_path):
    log, path = await saved(tmp_path)
    late = Change(len(log), b"a", b"late", [(HEADER, Token(0, 0).encode())])
    log += [late, Change(len(log) + 1, b"b", b"2")]
    found, start = await restored(log, tmp_path)
    assert found == {b"a": b"1", b"b": b"2"}
    assert start == 4
    assert read(path)[0].token == Token(0, 1).encode().hex()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"topic": "other"}, "it is of other-0"),
        ({"partition": 7}, "it is of app-t-changelog-7"),
        ({"topic_id": "other"}, "made anew"),
        ({"age_s": MAX_AGE + 9}, "12.0 hours old"),
        ({"age_s": -3600}, "-1.0 hours old"),
    ],
)
async def test_a_foreign_or_old_snapshot_is_ignored_with_a_warning(tmp_path, change, reason):
    log, path = await saved(tmp_path)
    head, pairs = read(path)
    if "age_s" in change:
        change = {"written_at": time.time() - change["age_s"]}
    draft = Draft(path, replace(head, **change))
    draft.write(snapshots.entries(pairs))
    draft.publish()
    with capture_logs() as told:
        assert await restored(log, tmp_path) == ({b"a": b"1"}, 0)
    assert told[0]["log_level"] == "warning"
    assert reason in told[0]["reason"]


async def test_a_corrupt_snapshot_is_ignored(tmp_path):
    log, path = await saved(tmp_path)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert await restored(log, tmp_path) == ({b"a": b"1"}, 0)


async def test_a_full_disk_costs_the_snapshot_and_nothing_else(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Draft, "write", full)
    owner = Owner([])
    owner.put(b"a", b"1")
    assert not await kept(owner, tmp_path).save(0)


async def test_what_has_changed_most_comes_first_and_the_unchanged_not_at_all(tmp_path):
    owner = Owner([])
    owner.local.assign([0, 1, 2, 4], followed=[3])
    for number in (0, 1, 2):
        owner.local.at(number).claim(2)
    for number, covered, keys in ((0, 50, 10), (1, 80, 300), (2, 60, 0), (3, 70, 0), (4, 90, 0)):
        state = owner.local.find(number)
        state.covered = covered
        state.values = Values(bytes, {b"%d" % i: b"" for i in range(keys)})
    keeper = kept(owner, tmp_path)
    assert keeper._worth(55, share=0.5) == [3, 2], "1 has changed less than half of its keys"
    assert await keeper.save(3)
    assert keeper._worth(1, share=0) == [1, 2, 0], "4 is still being recovered"
