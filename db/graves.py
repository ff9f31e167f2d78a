"""How full the topics are that nobody empties: dead letters and the parking lot (design, Names).

They are kept without limit, so their size is an alarm: many letters mean that something is wrong for many
customers, or that nobody looks. Below streams and sinks, so that either can tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from tenacity import retry, retry_if_exception, stop_after_delay, wait_fixed

from kafka_access import kafka_client
from schemas.topic_names import DEAD, PARKING
from settings import RajadaError, Settings

ANSWER_S: Final = 10.0
GRAVES: Final = (DEAD, PARKING)


_PASSING: Final = frozenset(
    {KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._TIMED_OUT}
)


class GravesUnknown(RajadaError):
    """Kafka does not tell how full the topics are; the message says why."""


def letters(bootstrap: str, settings: Settings) -> dict[str, int]:
    """Topic (name without prefix) → records that it holds; one that does not exist holds none.

    Counted from offsets: records of aborted transactions count too, deleted ones don't.

    Raises GravesUnknown.
    """
    admin = AdminClient({**kafka_client(bootstrap), "log_level": 2})
    names = {settings.topic(grave): grave for grave in GRAVES}
    try:
        partitions = _partitions(admin, list(names))
        starts = _offsets(admin, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]  # the client's
        ends = _offsets(admin, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]  # the client's
    except (KafkaException, TimeoutError) as error:
        what = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
        raise GravesUnknown(
            f"Kafka at {bootstrap} does not say how many dead letters there are: {what}"
        ) from error
    held = dict.fromkeys(GRAVES, 0)
    for where in partitions:
        held[names[where.topic]] += ends[where] - starts[where]
    return held


def overfull(held: Mapping[str, int], settings: Settings) -> dict[str, int]:
    """Of those, the topics that hold more than `dead_alarm_records`."""
    return {grave: count for grave, count in held.items() if count > settings.dead_alarm_records}


def _partitions(admin: AdminClient, topics: list[str]) -> list[TopicPartition]:
    found = []
    for topic, answer in admin.describe_topics(TopicCollection(topics), request_timeout=ANSWER_S).items():
        try:
            found += [TopicPartition(topic, one.id) for one in answer.result(ANSWER_S).partitions]
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return found


def _passes(error: BaseException) -> bool:
    """Whether a leader is only just moving, as it is of a topic that was made a moment ago."""
    return isinstance(error, KafkaException) and error.args[0].code() in _PASSING


@retry(retry=retry_if_exception(_passes), stop=stop_after_delay(ANSWER_S), wait=wait_fixed(0.1), reraise=True)
def _offsets(
    admin: AdminClient, partitions: list[TopicPartition], which: OffsetSpec
) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    answers = admin.list_offsets(
        dict.fromkeys(partitions, which),
        request_timeout=ANSWER_S,
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
    )
    return {where: int(answer.result(ANSWER_S).offset) for where, answer in answers.items()}
