"""The state machine of a job as one table: every event, and where it leads from every state (spec/jobs.md).

What isn't listed changes nothing: a redelivered record, a command for a job that has ended, an answer that
comes after a cancellation. `docs/jobs.md` is drawn from this table, and a test drives every pair through
`streams.transitions`. Pure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from streams.heads import State


class Event(StrEnum):
    """What can happen to a job."""

    RECORD = "record"
    """Its record is read from `dispatch.jobs`."""
    VERIFIED = "verified"
    """Its row was looked at: it has not ended meanwhile."""
    ENDED_BEFORE = "ended before"
    """Its row was looked at: it has ended."""
    START = "start"
    SUCCEED = "succeed"
    RETRY = "retry"
    """The answer asks for another attempt, or for the same one later."""
    VETO = "veto"
    """The answer forbids it for good."""
    DIE = "die"
    SUSPEND = "suspend"
    """The answer asks to hold it for a person."""
    LOSE = "lose"
    """Its worker died during the call: nobody knows the answer."""
    HAND_BACK = "hand back"
    """The worker stops gracefully before the answer came."""
    NOT_WORKING = "session not working"
    MERGE = "merge"
    """A newer turn of the conversation takes it in."""
    COVER = "cover"
    """A newer turn of the conversation is done."""
    CANCEL = "cancel"
    RUN_NOW = "run now"
    HOLD = "hold"
    RELEASE = "release"
    """By a person, or because its reason is gone."""
    REQUEUE = "requeue"
    RECOVER = "recover"
    """Its row says that it runs, and has said so for too long: does anybody know it here?"""
    SETTLE = "settle"
    """A group link whose message has reached the person by another way: there is nothing left to send."""


Targets = tuple[State, ...]

_LIVE: Final = (
    State.AWAITED,
    State.UNVERIFIED,
    State.WAITING,
    State.RUNNING,
    State.DELAYED,
    State.HELD,
)

TABLE: Final[dict[Event, dict[State | None, Targets]]] = {
    Event.RECORD: {
        None: (State.WAITING, State.UNVERIFIED, State.DELAYED, State.DEAD),
        State.AWAITED: (State.WAITING, State.UNVERIFIED, State.HELD, State.FAILED, State.DELAYED, State.DEAD),
        State.DELAYED: (State.WAITING, State.DELAYED, State.DEAD),
    },
    Event.VERIFIED: {State.UNVERIFIED: (State.WAITING,)},
    Event.ENDED_BEFORE: {State.UNVERIFIED: (State.DONE, State.FAILED, State.DEAD)},
    Event.START: {State.WAITING: (State.RUNNING,)},
    Event.SUCCEED: {State.RUNNING: (State.DONE,)},
    Event.RETRY: {State.RUNNING: (State.DELAYED, State.HELD, State.DEAD)},
    Event.VETO: {State.RUNNING: (State.FAILED,)},
    Event.DIE: {State.RUNNING: (State.DEAD,)},
    Event.SUSPEND: {State.RUNNING: (State.HELD,)},
    Event.LOSE: {State.RUNNING: (State.DELAYED, State.HELD, State.DEAD)},
    Event.HAND_BACK: {State.RUNNING: (State.WAITING, State.HELD)},
    Event.NOT_WORKING: {State.WAITING: (State.DELAYED,)},
    Event.MERGE: {State.WAITING: (State.DONE,)},
    Event.COVER: {State.DELAYED: (State.DONE,), State.WAITING: (State.DONE,)},
    Event.CANCEL: {
        None: (State.AWAITED,),
        **dict.fromkeys(_LIVE, (State.FAILED,)),
        State.AWAITED: (State.AWAITED,),
    },
    Event.RUN_NOW: {
        State.WAITING: (State.WAITING,),
        State.DELAYED: (State.WAITING,),
        State.HELD: (State.WAITING, State.UNVERIFIED),
    },
    Event.HOLD: {
        None: (State.AWAITED,),
        State.AWAITED: (State.AWAITED,),
        State.UNVERIFIED: (State.HELD,),
        State.WAITING: (State.HELD,),
        State.RUNNING: (State.RUNNING,),
        State.DELAYED: (State.HELD,),
    },
    Event.RELEASE: {
        State.AWAITED: (State.AWAITED,),
        State.RUNNING: (State.RUNNING,),
        State.HELD: (State.WAITING, State.UNVERIFIED),
    },
    Event.REQUEUE: {
        None: (State.UNVERIFIED,),
        State.DEAD: (State.WAITING,),
        # buried on its way through the delay topics, which know no heads
        State.DELAYED: (State.WAITING,),
    },
    Event.RECOVER: {
        None: (State.HELD, State.WAITING, State.DEAD),
        State.AWAITED: (State.HELD, State.WAITING, State.DEAD, State.FAILED),
        # how it ended is told once more: the row would say so if that had come
        State.DONE: (State.DONE,),
        State.FAILED: (State.FAILED,),
        State.DEAD: (State.DEAD,),
    },
    # not of a running one: what becomes of that is told by its own answer
    Event.SETTLE: {
        None: (State.DONE,),
        State.AWAITED: (State.DONE,),
        State.UNVERIFIED: (State.DONE,),
        State.WAITING: (State.DONE,),
        State.DELAYED: (State.DONE,),
        State.HELD: (State.DONE,),
        State.DEAD: (State.DONE,),
    },
}
"""Event → state it is met in (None: no head) → states it may lead to."""


def targets(event: Event, state: State | None) -> Targets:
    """Where an event may lead from a state; empty: it changes nothing."""
    return TABLE[event].get(state, ())
