"""What the live page shows, as plain data: `ops.pages` makes it, the templates tell it (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Level = Literal["begin", "info", "good", "stop", "warn", "dead"]


@dataclass(frozen=True, slots=True)
class Coming:
    """An event that came in; times in Unix ms."""

    event_id: str
    at_ms: int
    organization_id: str
    contact_id: str | None
    phone: str | None
    """As the CRM has it: to be masked."""
    kind: str
    status: str | None
    """Of its row; None: it has none."""
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Counted:
    """How many there are of something."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a reader of a topic is behind, in records."""

    reader: str
    topic: str
    unread: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot; sizes in bytes."""

    name: str
    active: bool
    wal_status: str | None
    retained: int
    behind: int


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the reconciler; times in Unix ms."""

    began_ms: int
    took_s: float
    state: str
    kind: str
    moved: int
    opened: int
    resolved: int
    error: str | None


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything at a glance, as it was at a moment."""

    at_ms: int
    coming: Sequence[Coming] = ()
    minutes: Sequence[int] = ()
    """Events of each of the last minutes, oldest first."""
    events: Sequence[Counted] = ()
    jobs: Sequence[Counted] = ()
    links: Sequence[Counted] = ()
    alerts: Sequence[Alert] = ()
    lags: Sequence[Lag] = ()
    slots: Sequence[Slot] = ()
    runs: Sequence[Run] = ()
    notes: Sequence[str] = ()
    """What is not told, and why."""


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert in the inbox; times in Unix ms; the body is masked."""

    id: str
    organization_id: str | None
    title: str
    body: str
    status: str
    occurrences: int
    created_ms: int
    last_ms: int
    about: str | None
    """Id of what it is about."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job in a list; times in Unix ms; the error is masked."""

    id: str
    organization_id: str
    contact_id: str | None
    kind: str
    status: str
    attempts: int
    max_attempts: int
    created_ms: int
    now: str
    """Where it is and when it goes on, in words."""
    at_ms: int | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Told:
    """A step of a story."""

    at_ms: int
    title: str
    level: Level
    details: Sequence[str]
    events: Sequence[str]


@dataclass(frozen=True, slots=True)
class Current:
    """Where something of a story is now."""

    about: str
    text: str
    at_ms: int | None


@dataclass(frozen=True, slots=True)
class Story:
    """What is known of an id, as `rajada why` tells it."""

    asked: str
    kind: str | None
    found: bool
    ids: Mapping[str, str]
    steps: Sequence[Told]
    left_out: int
    now: Sequence[Current]
    looked_at: Sequence[str]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter in a list; times in Unix ms."""

    place: str
    """Topic, partition, offset: dead/3/17."""
    at_ms: int
    reason: str
    title: str
    kind: str
    stage: str
    organization_id: str | None
    about: str | None
    replays: int
    state: str
    """`open`, or what was done with it."""


@dataclass(frozen=True, slots=True)
class Letters:
    """A page of dead letters, the newest first."""

    letters: Sequence[Letter]
    open: int
    groups: Sequence[tuple[str, str, int]]
    """Reason, kind and how many, most first."""
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A dead letter, decoded; what is in it is veiled unless the viewer may see phones."""

    letter: Letter
    meaning: str
    message: str
    key: str | None
    headers: Sequence[tuple[str, str | None]]
    content: str
    way: Sequence[str]
    advice: str
    goes: str
    """What a requeue would do, in words; empty where it would do nothing."""


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """A window that the worker holds; times in Unix ms."""

    organization_id: str
    contact_id: str
    conversation_id: str
    state: str
    messages: int
    deadline_ms: int
    """When it closes, or is looked at again."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A contact's jobs that have not ended."""

    organization_id: str
    who: str
    """Contact id, or a phone where the jobs are group links: to be masked."""
    is_phone: bool
    running: int
    waiting: int
    delayed: int
    held: int
    oldest_ms: int
    first: str
    """The job at the head of the lane."""


@dataclass(frozen=True, slots=True)
class Windows:
    """What the worker holds now, from its changelogs."""

    at_ms: int
    windows: Sequence[OpenWindow]
    """Those that close soonest."""
    all_windows: int
    lanes: Sequence[Lane]
    """The fullest."""
    all_lanes: int
    complete: bool
    """Whether the changelogs were read to their ends, and no contact had to be left out."""
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Delays:
    """Jobs that wait for their time."""

    at_ms: int
    ladder: Sequence[tuple[str, int]]
    """Within which time they are due, and how many."""
    next: Sequence[Job]


@dataclass(frozen=True, slots=True)
class Compared:
    """One window that a shadow and the old drain decided, not in the same way; the time in Unix ms."""

    at_ms: int
    ours: str
    theirs: str
    contact_id: str | None
    events: Sequence[str]


@dataclass(frozen=True, slots=True)
class Difference:
    """What was found of one kind: the same, different, or not comparable."""

    group: str
    name: str
    title: str
    what: str
    look: str
    """What to look at; may be empty."""
    count: int
    examples: Sequence[Compared]


@dataclass(frozen=True, slots=True)
class Shadow:
    """What a shadow decided beside the old drain (docs/shadow.md)."""

    since_ms: int
    until_ms: int
    windows: int
    events: int
    found: Sequence[Difference]
    behind: int | None
    """Events that it has yet to read; None: not known, or nobody's business."""
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Instance:
    """A WhatsApp instance; times in Unix ms."""

    id: str
    organization_id: str
    state: str
    since_ms: int
    stuck: bool
    """In its state for longer than it may take."""
    locked: bool


@dataclass(frozen=True, slots=True)
class Instances:
    """The instances, those that are stuck first, and what the reconciler did."""

    counts: Sequence[Counted]
    instances: Sequence[Instance]
    runs: Sequence[Run]
    notifications: int


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: told in the audit."""

    id: str
    whose: str | None
