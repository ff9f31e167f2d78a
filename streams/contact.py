"""What the worker remembers of one contact: the value of the contacts table and of its changelog.

One record per contact holds everything that must survive a crash together: its windows (open, waiting,
frozen), how far its partition was applied, which events it saw lately, and which conversations were
superseded without an answer since (spec/dispatch.md, steps 2, 3 and 6; design, decision 3).

Records are JSON so that `kcat` shows them to a person. Fields are only ever added, with a default; the
array-like ones (`WindowEvent`) only at their end.
"""

from __future__ import annotations

from typing import Literal

import msgspec

WindowState = Literal["open", "media", "retry", "frozen"]
"""`open`: collects events until its deadline; `media`: past it, waits for a photo or audio to be read and
still collects; `retry`: its decision failed, is looked at again, takes no more events; `frozen`: decided,
what it sends stands in the record."""


class WindowEvent(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One event inside a window; times in ms since the epoch."""

    event_id: str
    message_id: str
    session_id: str
    offset: int
    time_ms: int
    replay: int = 0
    attempts: int = 0
    """What `event_log.attempts` said when the event was published."""


class Frozen(msgspec.Struct, omit_defaults=True, frozen=True, gc=False):
    """The decision of a window as it will be sent, however often (spec/dispatch.md, step 6)."""

    outcome: str
    """`job`, the reason of a stop, or the error class of a death."""
    status: Literal["done", "dead"]
    decided_ms: int
    job_id: str | None = None
    answers: str | None = None
    """The event whose message the job answers: the newest of the conversation."""
    deduplicated: list[tuple[WindowEvent, str | None]] = []
    """Events that stop 0 took out of the window, each with the job that has it, where known."""
    last_error: str | None = None
    warnings: list[str] = []
    run_by: Literal["lanes", "table"] = "lanes"
    """Who runs the job: as the setting was when it was decided."""
    because: dict[str, str | int | bool | None] = {}
    """What made a stop, for the trace."""
    of_others: list[str] = []
    """Of the deduplicated: events whose id is another contact's."""


class Window(msgspec.Struct, omit_defaults=True, gc=False):
    """A window of one conversation; `events` in the order of the log. Times in ms since the epoch."""

    conversation_id: str
    events: list[WindowEvent]
    deadline_ms: int
    """Up to here (inclusive) an event belongs to the window, by event time."""
    length_ms: int
    max_events: int
    sliding_until_ms: int = 0
    """Sliding windows: the hard bound of the deadline; 0 = fixed."""
    max_wait_ms: int = 0
    """The rule's bound: superseded for longer than this, the conversation gets its job; 0 = the default."""
    state: WindowState = "open"
    look_at_ms: int = 0
    """`media` and `retry`: wall-clock time of the next look."""
    failures: int = 0
    """Decisions of this window that failed and spent an attempt."""
    seq: int = 0
    """The last sequence number that an outcome of its events has used."""
    again: bool = False
    """Made by `replay --again`: skips stops 0 and 5 and never shares its window."""
    last_error: str | None = None
    after_offset: int = -1
    """Holds a replayed event: decided only when the sink has written the outcomes below this offset."""
    frozen: Frozen | None = None

    @property
    def id(self) -> str:
        """Windows are named by the identity of their first event, which is in one window only.

        The event's id alone would not do: it is in a second one when it is asked for again.
        """
        first = self.events[0] if self.events else self._first_taken_out
        return identity(first.event_id, first.replay)

    @property
    def _first_taken_out(self) -> WindowEvent:
        assert self.frozen is not None, "only stop 0 empties a window, and that freezes it"
        return self.frozen.deduplicated[0][0]


WindowName = tuple[bytes, str]
"""A contact's key and its window's id: one and the same event id may turn up under two contacts."""


class Contact(msgspec.Struct, omit_defaults=True, gc=False):
    """The record of one contact."""

    topic_id: str
    """Kafka's id of the source topic that `offset` belongs to: a re-created topic starts over."""
    offset: int = -1
    """Highest offset of the source partition that this record has taken in."""
    windows: list[Window] = []
    """Oldest first; several of one conversation only while an older one waits to be decided."""
    recent: dict[str, tuple[int, int]] = {}
    """`identity()` of an event whose window ended lately → (ms of that, offset of its outcome or -1)."""
    superseded: dict[str, int] = {}
    """Conversation → ms when it was first superseded without a job since (stop 5's exception)."""
    touched_ms: int = 0
    """When the record last changed; an idle contact is forgotten."""


def identity(event_id: str, replay: int) -> str:
    """An event's identity: its id and, where not 0, its replay number (spec/dispatch.md, Replays)."""
    return f"{event_id}#{replay}" if replay else event_id


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Contact)


def encode_contact(contact: Contact) -> bytes:
    """The changelog value of a contact."""
    return _encoder.encode(contact)


def decode_contact(value: bytes) -> Contact:
    """The contact in a changelog value; raises msgspec.DecodeError when the bytes are not one."""
    try:
        return _decoder.decode(value)
    except RecursionError as error:
        raise msgspec.DecodeError("it is nested too deeply") from error
