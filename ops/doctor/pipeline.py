"""Whether somebody does the work, and keeps up: the worker's group, the sink's, and how far they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from db.queries import load
from db.replication import Connection
from ops.doctor.findings import Check, Verdict, fail, ok, warn
from settings import Settings
from sinks.outcomes import GROUP
from streams import topics
from streams.lag import Lags
from streams.sweep import Position

ANSWER_S: Final = 5.0
COORDINATOR_S: Final = 15.0
LATE_S: Final = 60.0
"""Records that wait for longer are told: the sweep holds, and customers notice."""


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
        described = _group(bootstrap, group)
        lag = Lags(bootstrap).of_group(settings.topic(topics.SOURCE), group, LATE_S)
        return reader("worker", described, lag)

    def of_sink(connection: Connection) -> Verdict:
        lags, topic = Lags(bootstrap), settings.topic(topics.OUTCOMES)
        rows = connection.execute(load("sweep_sink"), {"topic_id": lags.topic_id(topic)}).fetchall()
        written = {int(str(partition)): int(str(offset)) for partition, offset in rows}
        lag = lags.of_offsets(topic, written, LATE_S)
        return reader("sink", _group(bootstrap, settings.topic(GROUP)), lag)

    checks: dict[str, Check] = {"worker": of_worker}
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
def _group(bootstrap: str, name: str) -> Group:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    found = admin.describe_consumer_groups([name], request_timeout=ANSWER_S)[name].result(ANSWER_S)
    return Group(found.state.name.lower(), len(found.members))


def reader(name: str, group: Group, lag: Sequence[Position]) -> Verdict:
    """Whether a reader is there and keeps up. `lag` is by partition."""
    waiting, late = sum(one.unread for one in lag), sum(one.overdue for one in lag)
    said = f"{waiting:,} record{'s' * (waiting != 1)} to go"
    if late:
        said += f", {late:,} of them older than {LATE_S:.0f} s"
    if not group.members:
        found = f"no {name} runs, {said}"
        advice = (
            f"start it: `{'faust -A streams worker' if name == 'worker' else 'rajada sink'}` or `rajada up`"
        )
        return fail(found, advice) if late else warn(found, advice)
    found = f"{group.members} member{'s' * (group.members != 1)}, {group.state}, {said}"
    if late:
        return fail(
            found, f"it is behind or hangs: `rajada status` and `rajada logs {name}` tell what it waits for"
        )
    if group.state != "stable":
        return warn(found, "the group rebalances: look again in a few seconds")
    return ok(found)
