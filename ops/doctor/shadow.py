"""Whether a shadow (docs/shadow.md) runs and keeps up, or was forgotten; asked only where one has been."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ops.doctor.findings import Verdict, ok, warn
from ops.doctor.pipeline import LATE_S, Group, group_of
from ops.numbers import several
from settings import SHADOW_PREFIX, Settings
from streams.lag import Lags
from streams.sweep import Position
from streams.topics import APP_ID, OUTCOMES, source_topic

FORGOTTEN: Final = "`rajada shadow clean` deletes what it has left, `rajada shadow run` goes on"


def topic_of(settings: Settings) -> str:
    """The topic that is there where a shadow has been."""
    return f"{settings.topic_prefix}{SHADOW_PREFIX}{OUTCOMES}"


def shadow(bootstrap: str, settings: Settings) -> Verdict:
    """Ask Kafka. Raises KafkaException, LagUnknown."""
    group = f"{settings.topic_prefix}{SHADOW_PREFIX}{APP_ID}"
    lag = Lags(bootstrap).of_group(source_topic(settings), group, LATE_S)
    return verdict(group_of(bootstrap, group), lag)


def verdict(group: Group, lag: Sequence[Position]) -> Verdict:
    """What that means. `lag` is by partition."""
    waiting, late = sum(one.unread for one in lag), sum(one.overdue for one in lag)
    said = f"{several(waiting, 'event')} to go"
    if not group.members:
        return warn(f"none runs, {said}, and its topics are there", FORGOTTEN)
    if late:
        return warn(
            f"it runs, {said}, {late:,} of them older than {LATE_S:.0f} s",
            "what it decides so late can't be compared: look at its log, `.rajada/shadow/logs/shadow.log`",
        )
    return ok(f"it runs, {said}; `rajada shadow report` tells what it found")
