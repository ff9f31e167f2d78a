"""`rajada shadow clean`: what a shadow has left in Kafka and on this machine, and, if wanted, the slot."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import psycopg
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from db.pool import conninfo_for
from db.replication import SlotStatus, drop, slot_status
from kafka_access import ANSWER_S, asker
from ops.asking import asking
from ops.errors import AlreadyRunning, Unreachable
from ops.shadow.process import folder_of
from settings import SHADOW_PREFIX, Settings


@dataclass(frozen=True, slots=True)
class Left:
    """What is there; `slot` is the installation's, not the shadow's."""

    topics: tuple[str, ...]
    groups: tuple[str, ...]
    folder: Path | None
    slot: SlotStatus | None

    def __bool__(self) -> bool:
        """Whether a shadow has left anything."""
        return bool(self.topics or self.groups or self.folder)


def left(bootstrap: str, url: str, settings: Settings) -> Left:
    """What a shadow of this installation has left. Raises AlreadyRunning when one runs; OpsError."""
    admin = AdminClient(asker(bootstrap))
    start = f"{settings.topic_prefix}{SHADOW_PREFIX}"
    try:
        topics = [name for name in admin.list_topics(timeout=ANSWER_S).topics if name.startswith(start)]
        groups = []
        for one in admin.list_consumer_groups(request_timeout=ANSWER_S).result(ANSWER_S + 1).valid:
            if one.group_id.startswith(start):
                groups.append(one.group_id)
                if one.state not in (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD):
                    raise AlreadyRunning(
                        f"A shadow runs: the group {one.group_id} has members. Stop it first (Ctrl-C where "
                        "`rajada shadow run` runs); a killed one is forgotten after the session timeout."
                    )
    except (KafkaException, TimeoutError) as error:
        raise _away(bootstrap, error) from error
    with asking(url), psycopg.connect(conninfo_for(url, "shadow-clean"), autocommit=True) as connection:
        slot = slot_status(connection, settings.slot)
    folder = folder_of(settings)
    return Left(tuple(sorted(topics)), tuple(sorted(groups)), folder if folder.exists() else None, slot)


def clean(bootstrap: str, what: Left) -> None:
    """Delete it. Raises Unreachable."""
    admin = AdminClient(asker(bootstrap))
    try:
        if what.groups:
            for group in admin.delete_consumer_groups(list(what.groups), request_timeout=ANSWER_S).values():
                _unless_gone(group.result, KafkaError.GROUP_ID_NOT_FOUND)
        if what.topics:
            for topic in admin.delete_topics(list(what.topics), request_timeout=ANSWER_S).values():
                _unless_gone(topic.result, KafkaError.UNKNOWN_TOPIC_OR_PART)
    except (KafkaException, TimeoutError) as error:
        raise _away(bootstrap, error) from error
    if what.folder is not None:
        shutil.rmtree(what.folder)


def drop_slot(url: str, settings: Settings) -> list[str]:
    """Drop the installation's slot and publication; what was dropped, in words. Raises OpsError."""
    with asking(url), psycopg.connect(conninfo_for(url, "shadow-clean"), autocommit=True) as connection:
        return drop(connection, publication=settings.publication, slot=settings.slot)


def _unless_gone(result: object, gone: int) -> None:
    try:
        result(ANSWER_S + 1)  # type: ignore[operator]  # a future's method
    except KafkaException as error:
        if error.args[0].code() != gone:
            raise


def _away(bootstrap: str, error: Exception) -> Unreachable:
    said = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
    return Unreachable(f"Kafka at {bootstrap} does not do it: {said}. Run it again; it goes on.")
