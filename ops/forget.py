"""Forgets a contact: its worker, its dead letters and the trace do; what remains is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from db import forgetting
from db import orders as stored_orders
from db.closed_letters import ClosedRow
from db.forgetting import Known, Names
from kafka_access import kafka_client
from ops.asking import asking
from ops.dlq.desk import Desk, operator
from ops.dlq.selection import Filter
from ops.errors import NotFound, Unreachable
from ops.orders import LOOK_S, Orders, Written
from ops.remains import Kept, Remains, remains
from ops.sender import Sender
from schemas.topic_names import (
    CONTACTS_CHANGELOG,
    CONTROL,
    DEAD,
    DELAY,
    GROUP_LINKS,
    JOBS,
    JOBS_CHANGELOG,
    OUTCOMES,
    PARKING,
    SOURCE,
)
from settings import Settings
from streams.erasing import erased, is_about, is_erased, needles
from streams.letters import Letter
from streams.topics import TOPICS

_ANSWER_S: Final = 10.0
CLOCKS_DIFFER: Final = timedelta(minutes=1)
"""By so much Postgres' and ours may at most, for what was told just now to count."""
PHONE_LOOK_S: Final = 1.0
"""What is told about a phone is found by its time alone."""
_HOLD_IT: Final = (
    SOURCE,
    GROUP_LINKS,
    JOBS,
    CONTROL,
    OUTCOMES,
    *(topic.name for topic in TOPICS if topic.name.startswith(f"{DELAY}.")),
    CONTACTS_CHANGELOG,
    JOBS_CHANGELOG,
)


@dataclass(slots=True)
class Survey:
    """What there is of a contact."""

    contact_id: str | None
    """None: somebody of whom a phone is known alone, as a group link has it."""
    places: list[tuple[str, str | None]]
    """Organization and phone."""
    known: Known
    names: Names = field(default_factory=Names)
    """Of events and jobs that are about it without naming it: its group links, its dead letters."""
    letters: dict[str, list[str]] = field(default_factory=dict)
    """Topic (without prefix) → places of letters that are about it and not erased."""

    @property
    def count(self) -> int:
        """Its dead letters."""
        return sum(len(places) for places in self.letters.values())


@dataclass(slots=True)
class Forgotten:
    """What was done."""

    traces: int = 0
    letters: int = 0
    deleted_up_to: dict[str, int] = field(default_factory=dict)
    """`topic/partition` → the offset from which the log begins now."""
    letters_left: list[str] = field(default_factory=list)
    jobs_left: int | None = None
    """Jobs that have not ended and keep their content until then; None: no worker has told."""


class Forgetter:
    """One contact of one installation; without its id whoever has the phone that `survey` is told."""

    def __init__(self, settings: Settings, bootstrap: str, url: str, contact_id: str | None) -> None:
        self._settings = settings
        self._bootstrap = bootstrap
        self._url = url
        self._contact_id = contact_id
        self._admin = AdminClient({**kafka_client(bootstrap), "log_level": 2})

    def survey(self, desk: Desk, organization_id: str | None, phone: str | None) -> Survey:
        """Look for everything; changes nothing. Raises NotFound, OpsError."""
        places: list[tuple[str, str | None]] = []
        if self._contact_id is not None:
            with asking(self._url):
                places = forgetting.places_of(desk.connection, self._contact_id)
        if organization_id is not None:
            places = [one for one in places if one[0] == organization_id] or [(organization_id, None)]
        if not places:
            raise NotFound(
                f"Nothing is known of a contact {self._contact_id}. If its row is gone, name its "
                "organization with --organization, and its phone with --phone (for group links)."
            )
        places = [(organization, _e164(phone or known_phone)) for organization, known_phone in places]
        names = Names()
        with asking(self._url):
            known = forgetting.known_of(desk.connection, self._contact_id, places, names)
        return Survey(self._contact_id, places, known, names)

    def find_letters(self, desk: Desk, survey: Survey) -> None:
        """Look through one topic of letters for those that are about the contact. Raises OpsError."""
        found = []
        for letter, replaced in self._about(desk, survey):
            survey.names.events.update(filter(None, [letter.event_id]))
            survey.names.jobs.update(filter(None, [letter.job_id]))
            if not replaced:
                found.append(str(letter.place))
        survey.letters[desk.topic] = found

    def order(self, desk: Desk, survey: Survey) -> list[Written]:
        """Order the workers that own the contact's keys to forget it. Raises OpsError."""
        orders = Orders(self._settings, self._bootstrap, self._url)
        keys = [
            (organization, f"{organization}:{who}".encode())
            for organization, phone in survey.places
            for who in (self._contact_id, phone)
            if who is not None
        ]
        return [orders.forget(desk.connection, organization, key, str(uuid4())) for organization, key in keys]

    def wait(self, desk: Desk, written: list[Written], timeout_s: float) -> int | None:
        """Until the worker of the contact's own key has told; how many jobs keep their content, or None."""
        deadline, since = time.monotonic() + timeout_s, datetime.now(UTC) - CLOCKS_DIFFER
        while True:
            with asking(self._url):
                left = stored_orders.jobs_left(
                    desk.connection, written[0].command.id, self._contact_id, since
                )
            if left is not None or time.monotonic() > deadline:
                return left
            time.sleep(LOOK_S if self._contact_id is not None else PHONE_LOOK_S)

    def replace_letters(
        self, desk: Desk, survey: Survey, done: Forgotten, watch: Callable[[int], None]
    ) -> None:
        """Write a letter without content for each that is about the contact, then close the old one.

        The lock is held. Raises OpsError; the same command goes on.
        """
        sender, by = Sender(self._bootstrap, self._settings), operator()
        page: list[Letter] = []
        for letter, replaced in self._about(desk, survey):
            if not replaced:
                page.append(letter)
            if len(page) >= _PAGE:
                self._replace(desk, sender, page, by, done)
                watch(done.letters)
                page = []
        self._replace(desk, sender, page, by, done)

    def delete_letters(self, desk: Desk, survey: Survey, done: Forgotten) -> None:
        """Delete the beginning of each partition up to the contact's letters, where all of it is closed."""
        everything = Filter(topic=desk.topic, closed=True)
        wanted = [one for _, phone in survey.places for one in needles(self._contact_id, phone)]
        below: dict[int, int] = {}
        blocked: set[int] = set()
        with asking(self._url):
            for page in desk.pages(everything, desk.ranges(everything), erased=True):
                for letter in page.letters:
                    partition, offset = letter.place.partition, letter.place.offset
                    is_open = (partition, offset) not in page.closed and not is_erased(letter)
                    if is_open:
                        blocked.add(partition)
                    elif is_about(letter, wanted):
                        if partition in blocked:
                            done.letters_left.append(str(letter.place))
                        else:
                            below[partition] = offset + 1
        for partition, offset in below.items():
            self._delete(desk.full_topic, partition, offset)
            done.deleted_up_to[f"{desk.full_topic}/{partition}"] = offset

    def erase_trace(self, desk: Desk, survey: Survey) -> int:
        """Erase what the trace tells; last, since the contact is found by it. Raises OpsError."""
        with asking(self._url):
            return forgetting.erase_trace(desk.connection, self._contact_id, survey.names)

    def remains(self, survey: Survey, done: Forgotten) -> list[Remains]:
        """What is left, where and until when. Raises Unreachable."""
        last = survey.known.last_at
        last_ms = int(last.timestamp() * 1000) if last is not None else time.time_ns() // 1_000_000
        known = survey.known
        rows = {
            "job_queue": known.jobs,
            "event_log": known.events,
            "group_link_dispatch_queue": known.links,
        }
        return remains(last_ms, self._kept(survey), done.letters_left, rows)

    def _about(self, desk: Desk, survey: Survey) -> Iterator[tuple[Letter, bool]]:
        """The letters about the contact, in order, each with whether its replacement is written."""
        everything = Filter(topic=desk.topic, closed=True)
        wanted = [one for _, phone in survey.places for one in needles(self._contact_id, phone)]
        with asking(self._url):
            for page in desk.pages(everything, desk.ranges(everything), erased=True):
                for letter in page.letters:
                    if is_about(letter, wanted):
                        closed = page.closed.get((letter.place.partition, letter.place.offset))
                        yield letter, closed is not None and closed.how == "erased"

    def _replace(self, desk: Desk, sender: Sender, page: list[Letter], by: str, done: Forgotten) -> None:
        sender.send([erased(letter, desk.source(letter.place)) for letter in page])
        rows = [ClosedRow(one.place.partition, one.place.offset, one.about) for one in page]
        with asking(self._url):
            desk.letters.close(rows, "erased", by)
        done.letters += len(page)

    def _delete(self, topic: str, partition: int, below: int) -> None:
        where = TopicPartition(topic, partition, below)
        try:
            self._admin.delete_records([where], request_timeout=_ANSWER_S)[where].result(_ANSWER_S)
        except KafkaException as error:
            raise Unreachable(
                f"Kafka did not delete the beginning of {topic} [{partition}]: {error.args[0].str()}. "
                "The same command goes on."
            ) from error

    def _kept(self, survey: Survey) -> dict[str, Kept]:
        has_phone = any(phone for _, phone in survey.places)
        names = [self._settings.topic(one) for one in _HOLD_IT if one != GROUP_LINKS or has_phone]
        try:
            there = self._admin.list_topics(timeout=_ANSWER_S).topics
            asked = [ConfigResource(ResourceType.TOPIC, one) for one in names if one in there]
            answers = self._admin.describe_configs(asked, request_timeout=_ANSWER_S)
            found = {resource.name: future.result(_ANSWER_S) for resource, future in answers.items()}
        except KafkaException as error:
            raise Unreachable(f"Kafka at {self._bootstrap} does not answer: {error.args[0].str()}") from error
        return {
            name: Kept(
                int(config["retention.ms"].value),
                int(config["segment.ms"].value),
                "compact" in str(config["cleanup.policy"].value),
            )
            for name, config in found.items()
        }


def _e164(phone: str | None) -> str | None:
    """A phone as keys and payloads of group links have it, however the CRM writes it."""
    digits = "".join(sign for sign in phone or "" if sign in "0123456789")
    return f"+{digits}" if digits else None


_PAGE: Final = 500
LETTER_TOPICS: Final = (DEAD, PARKING)
