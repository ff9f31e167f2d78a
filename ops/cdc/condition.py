"""How a connector fares: judged from its state, its slot, and what Kafka has (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from db.heartbeats import longest_silence_s
from db.replication import SlotStatus
from ops.cdc.rest import Condition


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with a connector, and what to do about it."""

    found: str
    advice: str


@dataclass(frozen=True, slots=True)
class Seen:
    """A connector as it is."""

    name: str
    event_type: str
    condition: Condition
    slot: SlotStatus | None
    position: int | None
    """The WAL position up to which Kafka has everything."""
    silent_s: float | None = None
    """Seconds since its last sign of life; None = none is expected."""
    every_s: float = 0.0
    """How often it shall give one."""

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong with it; None: it is well."""
        return trouble_of(self)


def is_gap(slot: SlotStatus | None, position: int | None) -> bool:
    """Whether the log of changes misses something between what Kafka has and what the slot gives (pure)."""
    if slot is None or slot.lost:
        return True
    confirmed = slot.confirmed_flush_lsn
    return position is not None and confirmed is not None and position < confirmed


REGISTER: Final = "run `rajada connector register`"
HEAL: Final = f"{REGISTER}: it makes a new slot and reads from the table what was missed"


def trouble_of(seen: Seen) -> Trouble | None:
    """See `Seen.trouble` (pure)."""
    state, reason = seen.condition.state, seen.condition.reason
    if state == "ABSENT":
        return Trouble("is not registered", REGISTER)
    if seen.slot is None:
        return Trouble("has lost its slot: it is gone", HEAL)
    if seen.slot.lost:
        return Trouble(
            "its slot is lost: the server removed WAL that it needs (max_slot_wal_keep_size)", HEAL
        )
    if is_gap(seen.slot, seen.position):
        return Trouble("has a slot that was made anew: events in between are not in it", HEAL)
    if state == "FAILED":
        if "RecordTooLarge" in reason:
            return Trouble(
                f"has failed: {reason}",
                f"{REGISTER.removesuffix('`')} --pass-refused`: it is left out, the sweep brings it to the "
                "dead letters",
            )
        return Trouble(f"has failed: {reason}", f"mend that, then {REGISTER}: it starts again where it was")
    if state in ("PAUSED", "STOPPED"):
        return Trouble(f"was {state.lower()} by somebody", f"{REGISTER} to let it run")
    if not seen.condition.running:
        return Trouble(
            f"is {state.lower()} without a task", "does a worker of Kafka Connect live? Look again soon"
        )
    if seen.silent_s is not None and seen.silent_s > longest_silence_s(seen.every_s):
        return Trouble(
            f"gives no sign of life for {seen.silent_s:.0f} s",
            "it is far behind, or can't reach Postgres or Kafka: see the log of Kafka Connect",
        )
    return None
