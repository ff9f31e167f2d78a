"""Whether somebody does the work, and keeps up: worker, forwarder of delays, sink, and how far they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from db.queries import load
from db.replication import Connection
from kafka_access import kafka_client
from ops.doctor.findings import Check, Verdict, fail, ok, warn
from settings import Settings
from sinks.outcomes import GROUP
from streams import topics
from streams.delays.process import GROUP as DELAYS_GROUP
from streams.due import DELAY_TOPICS
from streams.lag import Lags
from streams.sweep import Position

ANSWER_S: Final = 5.0
COORDINATOR_S: Final = 15.0
LATE_S: Final = 60.0
"""Records that wait for longer are told: the sweep holds, and customers notice."""
OVERDUE_S: Final = 10.0
"""A delayed record that should have left its topic for longer ago is told."""

START: Final = {
    "worker": "`faust -A streams worker`",
    "delays": "`rajada delays`",
    "sink": "`rajada sink`",
}


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group as its coordinator sees it."""

    state: str
    """stable, preparing_rebalancing, completing_rebalancing, empty, dead, …"""
    members: int


def pipeline_checks(bootstrap: str, connection: Connection | None, settings: Settings) -> dict[str, Check]:
    """The checks, by name. Without a database the sink's position can't be known."""

    def of_worker() -> Verdict:
        group = settings.topic(topics.APP_ID)
        described = group_of(bootstrap, group)
        lag = Lags(bootstrap).of_group(settings.topic(topics.SOURCE), group, LATE_S)
        return reader("worker", described, lag)

    def of_delays() -> Verdict:
        if settings.jobs_run_by == "table":
            return ok("not needed: the CRM's own workers run the jobs")
        group, lags = settings.topic(DELAYS_GROUP), Lags(bootstrap)
        described = group_of(bootstrap, group)
        lag = [
            position
            for topic, wait_ms in DELAY_TOPICS.items()
            for position in lags.of_group(settings.topic(topic), group, wait_ms / 1000 + OVERDUE_S)
        ]
        return forwarder(described, lag)

    def of_sink(connection: Connection) -> Verdict:
        lags, topic = Lags(bootstrap), settings.topic(topics.OUTCOMES)
        rows = connection.execute(load("sweep_sink"), {"topic_id": lags.topic_id(topic)}).fetchall()
        written = {int(str(partition)): int(str(offset)) for partition, offset in rows}
        lag = lags.of_offsets(topic, written, LATE_S)
        return reader("sink", group_of(bootstrap, settings.topic(GROUP)), lag)

    checks: dict[str, Check] = {"worker": of_worker, "delays": of_delays}
    if connection is not None:
        checks["sink"] = lambda: of_sink(connection)
    return checks


@retry(
    # a new cluster makes its coordinator with the first question about a group, which takes its time
    retry=retry_if_exception_type((KafkaException, TimeoutError)),
    stop=stop_after_delay(COORDINATOR_S),
    wait=wait_fixed(0.5),
    reraise=True,
)
def group_of(bootstrap: str, name: str) -> Group:
    """A group, asked now. Raises KafkaException, TimeoutError."""
    admin = AdminClient({**kafka_client(bootstrap), "log_level": 0})
    found = admin.describe_consumer_groups([name], request_timeout=ANSWER_S)[name].result(ANSWER_S)
    return Group(found.state.name.lower(), len(found.members))


def reader(name: str, group: Group, lag: Sequence[Position]) -> Verdict:
    """Whether a reader is there and keeps up. `lag` is by partition."""
    waiting, late = sum(one.unread for one in lag), sum(one.overdue for one in lag)
    said = f"{waiting:,} record{'s' * (waiting != 1)} to go"
    if late:
        said += f", {late:,} of them older than {LATE_S:.0f} s"
    return _told(name, group, said, late=bool(late))


def forwarder(group: Group, lag: Sequence[Position]) -> Verdict:
    """Whether delayed records leave their topics in time; that they wait is no lag."""
    waiting, late = sum(one.unread for one in lag), sum(one.overdue for one in lag)
    said = f"{waiting:,} record{'s' * (waiting != 1)} wait"
    if late:
        said += f", {late:,} of them for more than {OVERDUE_S:.0f} s too long"
    return _told("delays", group, said, late=bool(late))


def _told(name: str, group: Group, said: str, *, late: bool) -> Verdict:
    if not group.members:
        found = f"no {'forwarder' if name == 'delays' else name} runs, {said}"
        advice = f"start it: {START[name]} or `rajada up`"
        return fail(found, advice) if late else warn(found, advice)
    found = f"{group.members} member{'s' * (group.members != 1)}, {group.state}, {said}"
    if late:
        return fail(
            found, f"it is behind or hangs: `rajada status` and `rajada logs {name}` tell what it waits for"
        )
    if group.state != "stable":
        return warn(found, "the group rebalances: look again in a few seconds")
    return ok(found)
