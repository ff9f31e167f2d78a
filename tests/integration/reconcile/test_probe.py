"""The provider's word, over real HTTP: heard, not heard, and how long that may take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest

from settings import Settings, WrongSetting
from streams.reconcile.instances import Instance
from streams.reconcile.probe import SILENCES, Probe, Provider
from streams.reconcile.workshop import options_of
from tests.integration.reconcile import provider as stand_in
from tests.integration.reconcile.lab import Lab


@pytest.fixture
def server() -> Iterator[stand_in.Provider]:
    with stand_in.serving() as running:
        yield running


def instances(count: int = 1) -> list[Instance]:
    return [Instance(str(uuid4()), str(uuid4()), None, "provisioning", 1) for _ in range(count)]


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (stand_in.HEALTHY, "healthy"),
        (stand_in.UNHEALTHY, "unhealthy"),
        ((404, b""), "unhealthy"),
        ((410, b"gone"), "unhealthy"),
        ((500, b'{"healthy": true}'), "unreachable"),
        ((503, b""), "unreachable"),
        ((401, b""), "unreachable"),
        ((302, b""), "unreachable"),
        ((200, b""), "unreachable"),
        ((200, b"<html>"), "unreachable"),
        ((200, b"[]"), "unreachable"),
        ((200, b'{"healthy": "yes"}'), "unreachable"),
        ((200, b'{"healthy": true, "x": "' + b"y" * 100_000 + b'"}'), "unreachable"),
        ((200, b"[" * 60_000), "unreachable"),
    ],
)
async def test_only_a_clear_answer_is_one(
    server: stand_in.Provider, answer: stand_in.Answer, verdict: str
) -> None:
    server.answer = lambda name: answer
    (one,) = instances()
    async with Probe(Provider(server.url)) as probe:
        assert await probe.ask([one]) == {one.id: verdict}
    assert server.asked == [one.id]


async def test_a_call_takes_no_longer_than_its_timeout(server: stand_in.Provider) -> None:
    server.answer = lambda name: None
    asked = instances(4)
    async with Probe(Provider(server.url, timeout_s=0.3, concurrency=4)) as probe:
        began = time.monotonic()
        verdicts = await probe.ask(asked)
    assert set(verdicts.values()) == {"unreachable"}
    assert 0.3 <= time.monotonic() - began < 3


async def test_nobody_there_is_no_answer() -> None:
    (one,) = instances()
    async with Probe(Provider("http://127.0.0.1:9/{id}")) as probe:
        assert await probe.ask([one]) == {one.id: "unreachable"}


async def test_a_provider_that_is_away_is_not_asked_again_and_again(server: stand_in.Provider) -> None:
    server.answer = lambda name: (503, b"")
    async with Probe(Provider(server.url, concurrency=2)) as probe:
        verdicts = await probe.ask(instances(200))
        assert probe.away
    assert set(verdicts.values()) == {"unreachable"}
    assert SILENCES <= len(server.asked) <= SILENCES + 2


async def test_no_more_calls_at_a_time_than_allowed_and_with_the_token(server: stand_in.Provider) -> None:
    async with Probe(Provider(server.url, token="s3cret", concurrency=3)) as probe:
        verdicts = await probe.ask(instances(30))
    assert list(verdicts.values()) == ["healthy"] * 30
    assert server.most_at_once <= 3
    assert {headers["authorization"] for headers in server.headers} == {"Bearer s3cret"}


def test_names_are_put_into_the_url_as_names() -> None:
    one = Instance("1", "org", "wa/../x?y#z ü", "provisioning", 1)
    url = Provider("http://p/{organization_id}/{provider_ref}/{id}").url_of(one)
    assert url == "http://p/org/wa%2F..%2Fx%3Fy%23z%20%C3%BC/1"
    assert Provider("http://p/{provider_ref}").url_of(instances()[0]).rsplit("/", 1)[1]


def test_a_url_that_names_no_instance_is_refused() -> None:
    with pytest.raises(WrongSetting, match="WHATSAPP_PROBE_URL"):
        options_of(Settings(whatsapp_probe_url="http://provider/health"), "me")


# -- in a run


async def test_a_healthy_one_is_connected_and_deprovisioning_is_not_asked_about(
    bench: Lab, server: stand_in.Provider
) -> None:
    well, sick = bench.instance(), bench.instance()
    leaving = bench.instance("deprovisioning")
    server.answer = lambda name: stand_in.HEALTHY if name == well else stand_in.UNHEALTHY
    async with bench.worker() as worker:
        end, counts = await worker.run(provider=Provider(server.url))
    assert (end, counts["moved"]) == ("done", 3)
    assert [bench.state(one) for one in (well, sick, leaving)] == [
        "connected",
        "provisioning_failed",
        "archived",
    ]
    assert sorted(server.asked) == sorted([well, sick])


async def test_without_an_answer_age_alone_decides(bench: Lab, server: stand_in.Provider) -> None:
    server.answer = lambda name: (500, b"")
    bench.instances(5)
    async with bench.worker() as worker:
        end, counts = await worker.run(provider=Provider(server.url))
    assert (end, counts["moved"]) == ("done", 5)
    assert bench.states() == {"provisioning_failed": 5}


async def test_or_they_are_left_for_a_later_run_if_that_is_wanted(
    bench: Lab, server: stand_in.Provider
) -> None:
    server.answer = lambda name: (500, b"")
    bench.instances(5)
    async with bench.worker(lease_s=1.0) as worker:
        options = {"provider": Provider(server.url, timeout_s=0.2), "when_away": "leave"}
        end, counts = await worker.run(**options)
        assert (end, counts["moved"], counts["skipped"]) == ("done", 0, 5)
        assert bench.states() == {"provisioning": 5}
        assert len(bench.open()) == 5, "and the hub tells that they are stuck"
        await asyncio.sleep(1.1)
        server.answer = lambda name: stand_in.HEALTHY
        end, counts = await worker.run(**options)
        assert (end, counts["moved"], counts["resolved"]) == ("done", 5, 5)
    assert bench.states() == {"connected": 5}


async def test_a_slow_provider_takes_no_lease_beyond_its_end(bench: Lab, server: stand_in.Provider) -> None:
    """Each answer takes its full time; no move is refused for a token that another one took."""
    server.answer = lambda name: time.sleep(0.25) or stand_in.UNHEALTHY
    bench.instances(40)
    async with bench.worker(lease_s=2.0) as one, bench.worker(lease_s=2.0) as other:
        slow = Provider(server.url, timeout_s=0.5, concurrency=4)
        firing = await one.take()
        assert firing is not None
        making = asyncio.create_task(one.runner(provider=slow).make(firing))
        while not making.done():
            assert len(await other.store.reserve(1, other.owner, 0.001)) <= 1
            await asyncio.sleep(0.2)
        made = await making
    assert made.end == "done" and not made.report.skipped
    assert bench.value("SELECT count(*) = count(DISTINCT instance_id) FROM connect.whatsapp_moves") is True
