"""What each process may do in Kafka: the access list of every role, without any client (docs/access.md).

A role is one login. What is not in its list it may not do, where the brokers check (`authorizer.class.name`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from schemas.topic_names import (
    APP_ID,
    CLOCK,
    CONTACTS_CHANGELOG,
    CONTROL,
    DEAD,
    DELAY,
    DELAYS_GROUP,
    GRAVES_GROUP,
    GROUP_LINKS,
    JOBS,
    JOBS_CHANGELOG,
    LIVE_GROUP,
    ORIGINALS_GROUP,
    OUTCOMES,
    PARKING,
    PRODUCE_ID,
    RECONCILER_ID,
    RECONCILIATION,
    SINK_GROUP,
    SOURCE,
    WHY_GROUP,
)
from settings import SHADOW_PREFIX, RajadaError, Settings

Kind: TypeAlias = Literal["topic", "group", "transactional-id"]
Operation: TypeAlias = Literal[
    "Read", "Write", "Describe", "DescribeConfigs", "Create", "Delete", "AlterConfigs"
]

ROLES: Final = ("relay", "worker", "delays", "sink", "web", "reconciler", "operator")
"""Whom there is a list for; `operator` is who runs `rajada` by hand and makes the topics."""
ASKED_FOR: Final = ("shadow",)
"""And for these, which are told only when they are named."""

DELAYS: Final = f"{DELAY}."
"""What the names of all delay topics begin with."""


class NoSuchRole(RajadaError):
    """There is no list for a role of that name; the message tells those that there are."""


@dataclass(frozen=True, slots=True)
class Right:
    """What a role may do with a topic, a group or a transactional id of the installation.

    `name` is without the installation's prefix, unless `bare`: then it has none. `start`: all whose names
    begin so.
    """

    kind: Kind
    name: str
    operations: tuple[Operation, ...]
    start: bool = False
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of an access list as Kafka has it: who may do what with which."""

    principal: str
    kind: Kind
    name: str
    start: bool
    operation: Operation


def _topics(operations: Sequence[Operation], *names: str) -> tuple[Right, ...]:
    return tuple(Right("topic", name, tuple(operations), start=name == DELAYS) for name in names)


def _group(name: str, *, bare: bool = False) -> Right:
    return Right("group", name, ("Read",), bare=bare)


_ALL: Final = (
    SOURCE, GROUP_LINKS, JOBS, CONTROL, OUTCOMES, DEAD, PARKING, CLOCK, RECONCILIATION, CONTACTS_CHANGELOG,
    JOBS_CHANGELOG, DELAYS,
)  # fmt: skip
_SEEN: Final = _topics(["Describe"], *_ALL)
"""A process looks whether all topics are there before it begins."""
_PUBLISHES: Final = _topics(["Write", "DescribeConfigs"], SOURCE, GROUP_LINKS, DEAD, OUTCOMES)
"""Whoever publishes events asks first how large a record may be; one too large is a dead letter."""

RIGHTS: Final[Mapping[str, tuple[Right, ...]]] = {
    "relay": (*_SEEN, *_PUBLISHES),
    "worker": (
        *_SEEN,
        *_topics(["Read"], SOURCE, GROUP_LINKS, JOBS, CONTROL),
        *_topics(["Read", "Write"], CONTACTS_CHANGELOG, JOBS_CHANGELOG),
        *_topics(["Write"], JOBS, PARKING, DELAYS),
        *_PUBLISHES,  # it sweeps, and puts hand-made events right
        _group(APP_ID),
        _group(ORIGINALS_GROUP),
    ),
    "delays": (
        *_SEEN,
        *_topics(["Read", "Write"], DELAYS),
        *_topics(["Write"], JOBS, SOURCE, GROUP_LINKS, CONTROL, OUTCOMES, DEAD, PARKING, CLOCK),
        _group(DELAYS_GROUP),
        Right("transactional-id", f"{DELAYS_GROUP}-", ("Write",), start=True),
    ),
    "sink": (
        *_SEEN,
        *_topics(["Read"], OUTCOMES),
        *_topics(["Read", "Write"], DEAD, PARKING),  # alerts count what lies there
        *_topics(["Write"], DELAYS, CONTROL),  # it asks after group links that are stuck
        _group(SINK_GROUP),
        _group(GRAVES_GROUP),
    ),
    "web": (
        *_SEEN,
        *_topics(["Read"], SOURCE, GROUP_LINKS, DEAD, PARKING, CONTACTS_CHANGELOG, JOBS_CHANGELOG),
        # orders, and dead letters that go back to where they came from
        *_topics(["Write"], SOURCE, GROUP_LINKS, JOBS, CONTROL, OUTCOMES, PARKING),
        *(Right("group", name, ("Describe",)) for name in (APP_ID, DELAYS_GROUP)),  # how far they are
        *_topics(["Read"], f"{SHADOW_PREFIX}{OUTCOMES}"),  # its page compares
        Right("group", f"{SHADOW_PREFIX}{APP_ID}", ("Describe",)),
        _group(WHY_GROUP, bare=True),
        _group(LIVE_GROUP, bare=True),
    ),
    "reconciler": (
        *_SEEN,
        # it writes nothing; but its client is an idempotent producer: who may write nowhere is refused
        *_topics(["Read", "Write"], RECONCILIATION),
        _group(RECONCILER_ID),
    ),
    "operator": (
        *_topics(["Read", "Write", "Create", "Delete", "DescribeConfigs", "AlterConfigs"], *_ALL),
        *(
            _group(name)
            for name in (APP_ID, SINK_GROUP, DELAYS_GROUP, RECONCILER_ID, GRAVES_GROUP, ORIGINALS_GROUP)
        ),
        _group(WHY_GROUP, bare=True),
        Right("topic", SHADOW_PREFIX, ("Read", "Delete"), start=True),  # `rajada shadow report`, `clean`
        Right("group", SHADOW_PREFIX, ("Read", "Delete"), start=True),
        Right("transactional-id", PRODUCE_ID, ("Write",), start=True, bare=True),
    ),
    "shadow": (
        *_topics(["Read"], SOURCE),
        # its own topics, which it makes by itself: whoever tries it out need not ask for them
        Right("topic", SHADOW_PREFIX, ("Read", "Write", "Create", "DescribeConfigs"), start=True),
        Right("group", SHADOW_PREFIX, ("Read",), start=True),
        _group(ORIGINALS_GROUP),
    ),
}
"""Read and Write bring Describe along. `Delete` is also what erases a topic's records (`rajada forget`)."""


def rights_of(role: str) -> tuple[Right, ...]:
    """What a role may do. Raises NoSuchRole."""
    if role not in RIGHTS:
        raise NoSuchRole(f"There is no role {role!r}; there are {', '.join((*ROLES, *ASKED_FOR))}.")
    return RIGHTS[role]


def entries(role: str, principal: str, settings: Settings) -> list[Entry]:
    """The access list of a role in this installation, each entry once. Raises NoSuchRole.

    Args:
        role: one of ROLES or ASKED_FOR.
        principal: as Kafka names the login: `User:…`.
        settings: the topics' prefix.
    """
    found = [
        Entry(
            principal,
            right.kind,
            right.name if right.bare else settings.topic(right.name),
            right.start,
            operation,
        )
        for right in rights_of(role)
        for operation in right.operations
    ]
    return list(dict.fromkeys(found))


def commands(found: Iterable[Entry], bootstrap: str) -> list[str]:
    """The same as command lines of Kafka's own tool, one a resource."""
    together: dict[tuple[str, Kind, str, bool], list[Operation]] = {}
    for one in found:
        together.setdefault((one.principal, one.kind, one.name, one.start), []).append(one.operation)
    lines = []
    for (principal, kind, name, start), operations in together.items():
        words = [
            "kafka-acls.sh", "--bootstrap-server", bootstrap, "--command-config", "admin.properties", "--add",
            "--allow-principal", principal,
            *(word for operation in operations for word in ("--operation", operation)),
            f"--{kind}", name, *(["--resource-pattern-type", "prefixed"] if start else []),
        ]  # fmt: skip
        lines.append(shlex.join(words))
    return lines


def table() -> str:
    """The access lists as the page docs/access.md shows them: a row a role and a resource, in Markdown."""
    rows = ["| role | what | which | may |", "| --- | --- | --- | --- |"]
    for role in (*ROLES, *ASKED_FOR):
        together: dict[tuple[Kind, str, bool], list[Operation]] = {}
        for right in RIGHTS[role]:
            known = together.setdefault((right.kind, right.name, right.start), [])
            known += [one for one in right.operations if one not in known]
        alike: dict[tuple[Kind, tuple[Operation, ...]], list[str]] = {}
        for (kind, name, start), operations in together.items():
            implied = {"Read", "Write"} & set(operations)
            told = tuple(one for one in operations if one != "Describe" or not implied)
            alike.setdefault((kind, told), []).append(f"`{name}{'*' if start else ''}`")
        rows += [
            f"| {role} | {kind} | {', '.join(names)} | {', '.join(told)} |"
            for (kind, told), names in alike.items()
        ]
    return "\n".join(rows) + "\n"
