"""Does it live, can it work, has it begun? What the probes answer, with what to do where something is wrong.

Live is a process that a restart would not help. Kafka or Postgres away is no reason: it waits, and goes on.
Ready is one that does its work now. Started is one that was ready once, so that a long recovery is not
taken for a process that hangs. Pure but for the clocks it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

Probe = Literal["livez", "readyz", "startupz"]
PROBES: Final[tuple[Probe, ...]] = ("livez", "readyz", "startupz")

SILENT_S: Final = 60.0
"""A loop that says nothing for so long hangs: none of ours waits longer without going round."""

_ADVICE: Final = {
    "database": "Is Postgres up and DATABASE_URL right? Nothing is lost meanwhile. `rajada doctor` looks.",
    "broker": "Is Kafka up and KAFKA_BOOTSTRAP_SERVERS right? Nothing is lost. `rajada doctor` looks.",
    "group": "Partitions come within a session timeout or two. If not: `rajada doctor`, and the log.",
    "recovery": "It reads its state back; let it. rajada_recovery_records_left must fall.",
    "work": "Its log says more; `rajada doctor` looks at everything around it.",
}
_WORDS: Final = (("Postgres", "database"), ("database", "database"), ("Kafka", "broker"), ("topic", "broker"))


class Trouble(NamedTuple):
    """One thing that is not well."""

    part: str
    """What: `database`, `broker`, `group`, `recovery`, `loop`, `work`, …"""
    what: str
    """In words; nothing of a customer's."""
    what_to_do: str


Look = Callable[[], Sequence[Trouble]]
"""What is wrong now; nothing: all is well. Called in the probe's thread."""


def trouble(part: str, what: str) -> Trouble:
    """With the advice for its part."""
    return Trouble(part, what, _ADVICE.get(part, _ADVICE["work"]))


def of_reason(reason: str) -> Trouble:
    """From the one line that a process tells when it waits: which part that is, by its words."""
    part = next((part for word, part in _WORDS if word in reason), "work")
    return trouble(part, reason)


class Vitals:
    """What one process answers to probes.

    Args:
        name: of the process.
        ready: what keeps it from working now.
        live: what a restart would mend.
        silences: seconds since each of its loops went round.
    """

    def __init__(
        self,
        name: str,
        ready: Look,
        live: Look = lambda: (),
        silences: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        self.name = name
        self._ready = ready
        self._live = live
        self._silences = silences
        self._was_ready = False

    def look_at(self, *, ready: Look, live: Look) -> None:
        """Look at these from now on, in the place of what it was made with."""
        self._ready, self._live = ready, live

    def troubles(self, probe: Probe) -> list[Trouble]:
        """What stands against it; none: the answer is yes."""
        if probe == "livez":
            return [*self._hanging(), *self._live()]
        found = list(self._ready())
        if not found:
            self._was_ready = True
        return [] if probe == "startupz" and self._was_ready else found

    def _hanging(self) -> list[Trouble]:
        return [
            Trouble("loop", f"the loop {loop!r} has not gone round for {silent:.0f} s", _HANGS)
            for loop, silent in self._silences().items()
            if silent > SILENT_S
        ]


_HANGS: Final = (
    "It hangs: restart it, nothing is lost. Keep its log, and its stack (`py-spy dump`) if you can."
)
