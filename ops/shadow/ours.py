"""What the shadow decided: read from its topic of outcomes, without joining any group."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import structlog
from confluent_kafka import Message

from ops.shadow.compare import JOB, Ours
from ops.why.reader import TopicReader
from schemas.codec import decode_outcome
from schemas.errors import Undecodable
from schemas.records import Outcome
from schemas.topic_names import OUTCOMES
from settings import Settings
from streams.first_looks import FIRST_LOOK, WAITED
from streams.freezing import DEDUPLICATED

log = structlog.get_logger(__name__)

STALL_S: Final = 20.0


def outcomes_of(settings: Settings) -> str:
    """The full name of the topic with the shadow's outcomes, whoever asks."""
    return shadow_of(settings).topic(OUTCOMES)


def shadow_of(settings: Settings) -> Settings:
    """The settings as the shadow of this installation has them."""
    return settings.model_copy(update={"shadow": True})


def windows(reader: TopicReader, settings: Settings, since_ms: int, most: int) -> tuple[list[Ours], bool]:
    """The shadow's windows that were decided since then, and whether older ones of them were left out.

    Args:
        reader: of the installation's Kafka.
        settings: of the installation, or of its shadow.
        since_ms: Unix ms.
        most: windows at most; the newest are kept, about evenly of all partitions.

    Raises Unreachable.
    """
    topic = outcomes_of(settings)
    starts, ends = reader.since(topic, since_ms), reader.ends(topic)
    share = max(1, math.ceil(most / max(len(ends), 1)))
    ranges = {one: (max(start, ends[one] - share), ends[one]) for one, start in starts.items()}
    left_out = any(ranges[one][0] > start for one, start in starts.items())
    found: dict[tuple[str, ...], Ours] = {}
    for message in reader.read(topic, ranges, stall_s=STALL_S):
        for window in _of(message):
            # a crash may have sent a window twice, with the same content
            found[window.events] = window
    return sorted(found.values(), key=lambda one: one.decided_ms), left_out


def _of(message: Message) -> Iterator[Ours]:
    value = message.value()
    if not isinstance(value, bytes):
        return
    try:
        outcome = decode_outcome(value)
    except (Undecodable, ValueError) as error:
        log.warning("unreadable_outcome", offset=message.offset(), error=type(error).__name__)
        return
    window = window_of(outcome)
    if window is not None:
        yield window


def window_of(outcome: Outcome) -> Ours | None:
    """The window that an outcome tells of; None: it tells of no decision (a retry, an alert)."""
    if not outcome.events or outcome.outcome in (None, DEDUPLICATED) or outcome.status == "pending":
        return None
    facts: dict[str, Any] = msgspec.json.decode(outcome.facts) if outcome.facts else {}
    warnings: list[str] = facts.get("warnings", [])
    first = next((one.removeprefix(FIRST_LOOK) for one in warnings if one.startswith(FIRST_LOOK)), None)
    return Ours(
        events=tuple(one.event_id for one in outcome.events),
        organization_id=outcome.organization_id,
        contact_id=outcome.contact_id,
        conversation_id=facts.get("conversation_id"),
        outcome=JOB if outcome.job_id is not None else outcome.outcome or "",
        dead=outcome.status == "dead",
        first_look=first,
        opened_ms=facts.get("opened_ms", outcome.at_ms),
        deadline_ms=facts.get("deadline_ms", outcome.at_ms),
        decided_ms=outcome.at_ms,
        waited=WAITED in warnings,
        replayed=any(one.replay for one in outcome.events),
    )
