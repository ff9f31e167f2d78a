"""All tables are claimed before anybody is told, and whoever was told is asked to end before they go."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from streams.transport import ownership
from streams.transport.ownership import Membership, Ownership


class Ended(Exception):
    """The process would have ended."""


@pytest.fixture
def happened(monkeypatch):
    def end(error):
        raise Ended(error)

    monkeypatch.setattr(ownership, "end_process", end)
    return []


class Table:
    """Writes down what is asked of it."""

    def __init__(self, name, happened, owned=(0, 1)):
        self.name, self.happened, self.owned, self.whole = name, happened, set(owned), True
        self.when_owned_callbacks = [lambda owned: happened.append(f"{name} told {sorted(owned)}")]
        self.when_revoked_callbacks = [self.end]

    async def end(self):
        await asyncio.sleep(0)
        self.happened.append(f"{self.name} ended")

    async def is_recovered(self):
        await asyncio.sleep(0)
        return self.whole

    async def claim(self, generation):
        await asyncio.sleep(0)
        self.happened.append(f"{self.name} claimed in {generation}")

    async def tell_faust(self):
        """Nothing."""


def owner(happened, *tables):
    async def fence():
        happened.append("fenced")

    consumer = SimpleNamespace(fence=fence, check_lease=lambda: None, generation=7)
    app = SimpleNamespace(consumer=consumer, should_stop=False)
    return Ownership(app, lambda: list(tables)), app


async def test_everything_is_claimed_before_anybody_is_told(happened):
    ours, _ = owner(happened, Table("a", happened), Table("b", happened))
    ours.begin()
    await asyncio.gather(ours.recovered(), ours.recovered())  # Faust calls it for each table
    claims = ["a claimed in 7", "b claimed in 7"]
    assert happened == ["fenced", *claims, "a told [0, 1]", "b told [0, 1]"]
    await ours.give_up()
    assert happened[5:] == ["a ended", "b ended"]


async def test_nobody_is_told_while_a_table_is_not_whole(happened):
    a, b = Table("a", happened), Table("b", happened)
    ours, _ = owner(happened, a, b)
    b.whole = False
    ours.begin()
    await ours.recovered()
    await ours.give_up()
    assert happened == []
    b.whole = True
    ours.begin()
    await ours.recovered()
    assert happened[-1] == "b told [0, 1]"


async def test_a_recovery_that_a_revocation_has_overtaken_claims_nothing(happened):
    ours, app = owner(happened, Table("a", happened))
    ours.begin()
    await ours.give_up()
    await ours.recovered()
    ours.begin()
    app.should_stop = True
    await ours.recovered()
    assert happened == []


async def test_a_revocation_waits_for_those_who_are_just_being_told(happened):
    ours, _ = owner(happened, Table("a", happened))
    ours.begin()
    await asyncio.gather(ours.recovered(), ours.give_up())
    assert happened in (["fenced", "a claimed in 7", "a told [0, 1]", "a ended"], [])
    happened.clear()
    await ours.give_up()
    assert happened == [], "told once, ended once"


async def test_a_worker_without_partitions_is_told_so_and_claims_nothing(happened):
    ours, _ = owner(happened, Table("a", happened, owned=()))
    ours.begin()
    await ours.recovered()
    assert happened == ["a told []"]


async def test_a_failure_of_whoever_is_told_ends_the_process(happened):
    table = Table("a", happened)
    table.when_owned_callbacks.append(lambda owned: {}["missing"])
    ours, _ = owner(happened, table)
    ours.begin()
    with pytest.raises(Ended, match="missing"):
        await ours.recovered()


@pytest.mark.parametrize(
    ("earlier", "now", "stayed"),
    [
        (None, Membership("m", 3, False), False),
        (Membership("m", 3, False), Membership("m", 4, False), True),
        (Membership("m", 3, False), Membership("m", 6, False), True),
        (Membership("m", 3, False), Membership("n", 4, False), False),
        (Membership("m", 3, True), Membership("m", 4, True), True),
        (Membership("m", 3, True), Membership("m", 5, True), False),
        (Membership("m", 3, True), Membership("n", 3, True), False),
    ],
)
def test_only_a_member_that_stayed_keeps_what_it_wrote(earlier, now, stayed):
    assert now.follows(earlier) is stayed
