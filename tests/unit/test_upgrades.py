"""Rolling upgrades: what a newer version wrote waits an hour for a worker that knows it, then it is dead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from schemas import codec
from schemas.codec import decode_event, encode_command, encode_event
from schemas.delayed import EVERY_MS, FOR_MS, FORWARD_TO, LARGEST, UNKNOWN_SINCE, WAITS_IN, goes_to
from schemas.errors import UnknownSchema
from schemas.framing import frame
from schemas.records import Command
from schemas.topic_names import CONTROL, DEAD, GROUP_LINKS, JOBS, OUTCOMES, SOURCE
from streams import events, job_bounds
from streams.windows import WindowRule
from tests.unit.builders import event, row, row_bytes, uid
from tests.unit.job_worlds import START_MS, job_of
from tests.unit.job_worlds import World as Jobs
from tests.unit.living import publish, work
from tests.unit.test_execute import key_of, play, worker_in
from tests.unit.test_group_links import KEY, PAYLOAD, PLACE, taken
from tests.unit.test_group_links import Record as LinkRecord
from tests.unit.worlds import Record, Worker, World

HEADERS = (codec.MAGIC + b"tomorrow", frame(20_000))
"""Of a record with a schema that nobody knows yet: by its fingerprint, by an id of some registry."""
_header = [HEADERS[0]]


@pytest.fixture(autouse=True, params=HEADERS, ids=["fingerprint", "id"])
def of_either_form(request: pytest.FixtureRequest) -> None:
    """Each story is told with both."""
    _header[0] = request.param


def of_tomorrow(value: bytes) -> bytes:
    """The same record with a schema that nobody knows yet."""
    return _header[0] + value[codec.HEADER_BYTES :]


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Calling it makes the readers know the schema of tomorrow."""

    def known(value: bytes) -> dict[str, object]:
        if value.startswith(_header[0]):
            return decode_event(encode_event(row())[: codec.HEADER_BYTES] + value[len(_header[0]) :])
        return decode_event(value)

    return lambda: monkeypatch.setattr(events, "decode_event", known)


def write(world: World, name: str, *, age_ms: int = 0) -> None:
    """An event of tomorrow, written so long ago."""
    value = of_tomorrow(encode_event(row(name)))
    world.log.append(Record(event().key, value, len(world.log), world.now_ms - age_ms))


def come_back(world: World) -> int:
    """What waited in the delay topics comes back to the log, as the forwarder brings it; how many."""
    waiting, world.durable[WAITS_IN] = world.durable.get(WAITS_IN, []), []
    for key, value, partition, headers in waiting:
        assert goes_to(headers or ()) == SOURCE and partition == 0
        world.log.append(Record(key, value, len(world.log), world.now_ms, headers=headers or ()))
    return len(waiting)


async def an_hour_passes(world: World, worker: Worker) -> int:
    """Minute by minute; how often it came back."""
    tries = 0
    for _ in range(FOR_MS // EVERY_MS + 5):
        await work(worker)
        world.now_ms += EVERY_MS
        tries += come_back(world)
    await work(worker)
    return tries


def test_an_event_of_an_unknown_schema_is_dead_after_an_hour_with_its_bytes() -> None:
    world = World()
    write(world, "e0")
    value = world.log[0].value

    async def scenario() -> None:
        worker = Worker(world)
        assert await an_hour_passes(world, worker) == 60
        assert worker.collector.counts.postponed == 60
        assert worker.collector.counts.read == worker.collector.counts.accounted

    asyncio.run(scenario())
    (letter,) = world.durable[DEAD]
    assert letter[:2] == (event().key, value)
    assert dict(letter[3] or ())["reason"] == b"unknown_schema"
    (told,) = world.outcomes()
    assert told.status == "dead" and told.alert is not None, "nobody dies in silence"
    assert world.jobs() == []


def test_after_an_upgrade_within_the_hour_it_is_answered_by_its_own_time(
    upgrade: Callable[[], None],
) -> None:
    """Its window is long over: it opens one of its own, which is due at once; later events did not wait."""
    world = World()
    write(world, "e1")
    written_ms = world.now_ms

    async def scenario() -> None:
        worker = Worker(world)
        await work(worker)
        publish(world, "other", contact="ana")
        for _ in range(10):
            await work(worker)
            world.now_ms += 1_000
        assert [job.source_event_id for job in world.jobs()] == [uid("other")], "the contact goes on"
        for _ in range(20):
            world.now_ms += EVERY_MS
            come_back(world)
            await work(worker)
        upgrade()
        world.now_ms += EVERY_MS
        assert come_back(world) == 1
        await worker.collect(10)
        (window,) = next(iter(worker.memory.values())).windows
        assert window.events[0].time_ms == written_ms, "not the time of its last try"
        await work(worker)

    asyncio.run(scenario())
    assert [job.source_event_id for job in world.jobs()] == [uid("other"), uid("e1")]
    assert DEAD not in world.durable and world.durable[WAITS_IN] == []


def test_an_upgrade_within_its_window_leaves_it_in_its_window(upgrade: Callable[[], None]) -> None:
    world = World(rule=WindowRule(60_000 * 3))
    publish(world, "e0", contact="ana")
    write(world, "e1")

    async def scenario() -> None:
        worker = Worker(world)
        await work(worker)
        world.now_ms += EVERY_MS
        upgrade()
        come_back(world)
        await work(worker)
        world.now_ms += EVERY_MS * 3
        await work(worker)

    asyncio.run(scenario())
    (job,) = world.jobs()
    assert [one.event_id for one in job.events] == [uid("e0"), uid("e1")]


@pytest.mark.parametrize("kind", ["unknown schema", "wrong key"])
def test_what_has_no_room_for_another_header_is_dead_at_once(kind: str) -> None:
    """Sent again, the topic would refuse it, and every worker that reads it would end."""
    world = World()
    large = "x" * LARGEST
    value = of_tomorrow(encode_event(row(metadata=large))) if kind == "unknown schema" else b""
    value = value or row_bytes(metadata=large)
    world.log.append(Record(b"wrong", value, 0, world.now_ms))

    async def scenario() -> None:
        worker = Worker(world)
        await worker.collect(1)
        await asyncio.sleep(0)
        assert worker.collector.counts.dead == worker.collector.counts.accounted == 1

    asyncio.run(scenario())
    (letter,) = world.durable[DEAD]
    assert letter[:2] == (b"wrong", value)
    reason = dict(letter[3] or ())["reason"]
    assert reason == (b"unknown_schema" if kind == "unknown schema" else b"record_too_large")
    assert not {SOURCE, WAITS_IN} & world.durable.keys()


def test_one_with_a_commit_time_keeps_it_and_has_one() -> None:
    world = World()
    value = of_tomorrow(encode_event(row()))
    commit = ("cdc_source_ts_ms", b"1699999999000")
    world.log.append(Record(event().key, value, 0, world.now_ms, headers=[commit, ("replay", b"7")]))

    async def scenario() -> None:
        await Worker(world).collect(1)
        await asyncio.sleep(0)

    asyncio.run(scenario())
    ((_, _, _, headers),) = world.durable[WAITS_IN]
    assert [one for one in headers or () if one[0] in ("cdc_source_ts_ms", "replay")] == [
        commit, ("replay", b"7"),
    ]  # fmt: skip
    assert {UNKNOWN_SINCE, FORWARD_TO} <= {name for name, _ in headers or ()}


def test_a_group_link_of_an_unknown_schema_waits_too_and_dies_whole() -> None:
    given = {
        "id": uid("link"), "organization_id": uid("clinic"), "event_type": GROUP_LINKS,
        "payload": codec.msgspec.json.encode(PAYLOAD).decode(), "metadata": "{}", "status": "pending",
    }  # fmt: skip
    value = of_tomorrow(encode_event({**row(), **given}))
    intake, sent = taken(LinkRecord(KEY, value, 0, START_MS, partition=PLACE))
    ((key, sent_value, partition, headers),) = sent.items[WAITS_IN]
    assert (key, sent_value, partition) == (KEY, value, PLACE)
    assert goes_to(headers or ()) == GROUP_LINKS
    assert intake.counts.postponed == 1
    over = [(UNKNOWN_SINCE, b"%d" % (START_MS - FOR_MS))]
    intake, sent = taken(LinkRecord(KEY, value, 0, START_MS, partition=PLACE, headers=over))
    assert sent.items[DEAD][0][1] == value and len(sent.items[OUTCOMES]) == 1
    assert dict(sent.items[DEAD][0][3] or ())["reason"] == b"unknown_schema"


def test_a_command_of_an_unknown_schema_is_carried_out_by_the_worker_that_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        world = Jobs()
        worker = await worker_in(world)
        job = job_of(1, run_after_ms=START_MS + 10 * EVERY_MS)
        world.give(job)
        order = Command(id="c1", at_ms=START_MS, action="cancel", job_id=job.id)
        value = of_tomorrow(encode_command(order))
        world.append(CONTROL, key_of(), value)
        await worker.live(START_MS + 3 * EVERY_MS, step_ms=10_000)
        assert world.letters() == []

        def known(data: bytes) -> Command:
            if data == value:
                return order
            raise UnknownSchema(_header[0])

        monkeypatch.setattr(job_bounds, "decode_command", known)
        await worker.live(START_MS + 5 * EVERY_MS, step_ms=10_000)
        assert world.rows()[job.id].job_status == "failed"
        assert worker.executor.tally.read == worker.executor.tally.accounted

    play(story())


def test_an_event_that_an_old_forwarder_brought_to_the_jobs_is_sent_on_to_where_it_was_to_go() -> None:
    async def story() -> None:
        world = Jobs()
        worker = await worker_in(world)
        since, to = (UNKNOWN_SINCE, b"%d" % START_MS), (FORWARD_TO, SOURCE.encode())
        world.append(JOBS, key_of(), of_tomorrow(encode_event(row())), [since, to])
        await worker.turn()
        ((_, _, _, headers),) = world.durable[WAITS_IN]
        assert goes_to(headers or ()) == SOURCE and since in (headers or ())
        assert worker.executor.tally.read == worker.executor.tally.accounted

    play(story())


def test_a_command_that_nobody_knows_for_an_hour_is_dead_with_its_bytes() -> None:
    async def story() -> None:
        world = Jobs()
        worker = await worker_in(world)
        value = of_tomorrow(encode_command(Command(id="c1", at_ms=1, action="pause")))
        world.append(CONTROL, b"k", value)
        await worker.live(START_MS + 59 * EVERY_MS, step_ms=10_000)
        assert world.letters() == []
        await worker.live(START_MS + 70 * EVERY_MS, step_ms=10_000)
        (letter,) = world.letters()
        assert letter[1] == value and dict(letter[3] or ())["reason"] == b"unknown_schema"

    play(story())
