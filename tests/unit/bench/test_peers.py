"""What is pure in the comparison with others: the audit of what came out, the feed, the extrapolation."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from bench import backlog
from bench.backlog import Result
from bench.parts.main_path import COMMIT, TOPIC, Size, not_given
from bench.peer import Peer, Unavailable
from bench.peers import PEERS
from bench.peers.audit import Made, audit, extrapolated_s, read_job, read_outcome_events, windows_of
from bench.peers.drain import Passed, opened
from bench.peers.feeding import HOUR_MS, end_of, warming_of
from bench.peers.program import PYTHON, version_of
from bench.peers.records import event_of, sent
from bench.results import Line, Table
from bench.workload import Workload, Written, records_of
from ops.clinic import Clinic, Patient
from ops.event_record import Header
from schemas.codec import decode_job, decode_outcome
from streams.contact import WindowEvent
from streams.events import Event


def test_every_event_in_one_job_is_faultless() -> None:
    found = audit(["a", "b", "c"], [Made("1", ("a", "b")), Made("2", ("c",))])
    assert found.faultless
    assert (found.events, found.repeated) == (3, 0)


def test_a_record_sent_again_as_it_was_is_repeated_and_no_fault() -> None:
    found = audit(["a"], [Made("1", ("a",)), Made("1", ("a",)), Made("1", ("a",))])
    assert found.faultless
    assert (found.repeated, found.again) == (2, 1)


def test_an_event_in_no_job_is_lost() -> None:
    found = audit(["a", "b", "c"], [Made("1", ("b",))])
    assert (found.lost, found.faultless) == (2, False)


def test_an_event_under_two_job_ids_is_doubled_once_however_often_they_came() -> None:
    jobs = [Made("1", ("a", "b")), Made("2", ("b",)), Made("2", ("b",)), Made("3", ("b",))]
    found = audit(["a", "b"], jobs)
    assert (found.doubled, found.lost, found.repeated, found.faultless) == (1, 0, 1, False)
    assert found.again == 1


def test_a_job_sent_again_with_other_events_is_changed() -> None:
    found = audit(["a", "b", "c"], [Made("1", ("a",)), Made("1", ("a", "b")), Made("2", ("c",))])
    assert (found.changed, found.doubled, found.lost, found.faultless) == (2, 0, 0, False)


def test_the_order_of_events_is_part_of_a_job() -> None:
    assert audit(["a", "b"], [Made("1", ("a", "b")), Made("1", ("b", "a"))]).changed == 2
    assert windows_of([Made("1", ("a", "b"))]) != windows_of([Made("1", ("b", "a"))])


def test_events_that_never_went_in_are_told() -> None:
    found = audit(["a"], [Made("1", ("a", "x"))])
    assert (found.unknown, found.faultless) == (1, False)


def test_an_extrapolation_keeps_the_measured_pace() -> None:
    assert extrapolated_s(20_000, 16.0, 100_000) == 80.0


@pytest.mark.parametrize(("events", "seconds"), [(0, 1.0), (10, 0.0)])
def test_nothing_measured_is_not_extrapolated(events: int, seconds: float) -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        extrapolated_s(events, seconds, 1_000)


def test_a_job_and_an_outcome_in_json_are_read_as_ours_in_avro() -> None:
    key = f"{uuid4()}:{uuid4()}".encode()
    members = [WindowEvent(str(uuid4()), str(uuid4()), str(uuid4()), 0, 1_000 + at) for at in range(3)]
    ids = tuple(one.event_id for one in members)
    job, outcome = sent(key, str(uuid4()), members, 6_000, 5_000)
    in_json = b'{"id": "%s", "kind": "x", "events": [%s]}' % (
        decode_job(job).id.encode(),
        b", ".join(b'{"event_id": "%s", "replay": 0}' % one.encode() for one in ids),
    )
    assert read_job(job) == read_job(in_json) == Made(decode_job(job).id, ids)
    assert read_outcome_events(outcome) == read_outcome_events(in_json) == ids
    assert decode_outcome(outcome).job_id == decode_job(job).id


def _workload(events: int) -> Workload:
    patient = Patient("p", str(uuid4()), str(uuid4()))
    start_ms = time.time_ns() // 1_000_000 - HOUR_MS
    clinic = Clinic(organization_id=str(uuid4()), session_id=str(uuid4()), agent_id=str(uuid4()))
    return Workload(
        clinic, tuple(Written(str(uuid4()), str(uuid4()), patient, start_ms + at) for at in range(events)), 1
    )


def test_a_warm_up_is_of_nobody_and_lies_before_the_measured_events() -> None:
    workload = _workload(10)
    warming = warming_of(workload, 25)
    ids = [one.event_id for one in warming.events]
    assert len(set(ids)) == 25
    assert not set(ids) & {one.event_id for one in workload.events}
    contacts = {one.patient.contact_id for one in warming.events}
    assert workload.events[0].patient.contact_id not in contacts
    times = [one.at_ms for one in warming.events]
    assert times == sorted(times)
    assert times[-1] < workload.events[0].at_ms
    assert all(str(UUID(one)) == one for one in ids)


def test_the_end_of_a_partition_is_no_event_but_every_other_record_is() -> None:
    workload = _workload(2)
    _, value, headers = end_of(123)
    assert event_of(value, _pairs(headers), 1) is None
    for _, value, headers in records_of(workload):
        assert isinstance(event_of(value, _pairs(headers), 0), Event)


def _pairs(headers: list[Header]) -> list[tuple[str, bytes | None]]:
    """As a consumer gives them."""
    return [(name, text.encode() if isinstance(text, str) else text) for name, text in headers]


def test_a_drained_batch_names_each_conversation_once_and_by_its_first_event() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        (event, name, start + timedelta(seconds=at))
        for event, name, at in (("1", "a", 0), ("2", "b", 1), ("3", "a", 2))
    ]
    assert opened(rows, timedelta(seconds=5)) == [
        Passed("a", start + timedelta(seconds=5)),
        Passed("b", start + timedelta(seconds=6)),
    ]


def test_a_size_that_is_too_large_is_told_with_the_time_it_would_take() -> None:
    def unused(*_: object) -> Result:
        raise AssertionError("not measured here")

    peer = Peer("slow", "topic", "", 20_000, lambda: "", unused)
    larger = Size(100_000, 5_000)
    line = Line(name="slow", rounds=(900, 1_000, 1_250))
    measured = Table(title=f"{TOPIC}, 20,000", unit="events/s", lines=(line,))
    other_way = Table(title=f"{COMMIT}, 20,000", unit="events/s", lines=(Line(name="slow", rounds=(1,)),))
    assert "would take 100 s (extrapolated, not measured)" in not_given(peer, larger, [measured, other_way])
    assert "it would take too long" in not_given(peer, larger, [other_way])


def test_a_missing_package_is_told_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PYTHON, raising=False)
    with pytest.raises(Unavailable, match=r"pip install 'rajada\[peers\]'"):
        version_of("a-package-that-nobody-has-made")


def test_peers_have_names_that_a_command_line_can_choose() -> None:
    names = [one.name for one in PEERS]
    assert len(set(names)) == len(names)
    assert all(name == "".join(name.split()) and one.work for name, one in zip(names, PEERS, strict=True))


class _Record:
    """A record, or the end of a partition."""

    def __init__(self, partition: int, *, end: bool = False) -> None:
        self._partition, self._end = partition, end

    def error(self) -> str | None:
        return "end" if self._end else None

    def partition(self) -> int:
        return self._partition


def test_a_topic_that_is_still_written_to_is_read_to_its_end_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client tells a partition's end again after more was written: it used to be counted as another's."""
    batches = [
        [_Record(0), _Record(0, end=True)],
        [_Record(0), _Record(0, end=True), _Record(0, end=True)],
        [_Record(1), _Record(1, end=True)],
    ]

    class Client:
        def __init__(self, config: object) -> None:
            self.left = list(batches)

        def assign(self, partitions: object) -> None: ...

        def consume(self, count: int, timeout_s: float) -> list[_Record]:
            return self.left.pop(0)

        def close(self) -> None: ...

    monkeypatch.setattr(backlog, "Consumer", Client)
    assert [record.partition() for record in backlog.read_all("nowhere", "topic", 2)] == [0, 0, 1]
