"""What each finding means and what to look at: for the command, the live page and docs/shadow.md (pure).

`python -m ops.shadow.words` prints the tables of the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ops.shadow.compare import DIFFERENCES, SAME, Kind, NotComparable


@dataclass(frozen=True, slots=True)
class Told:
    """A kind of finding: `is_` says what it is, `look` what to look at."""

    title: str
    is_: str
    look: str = ""


KINDS: Final[Mapping[Kind, Told]] = {
    "same_job": Told("both answer", "one job here, one job there"),
    "same_stop": Told("both are silent", "a stop here, no job there"),
    "only_theirs": Told(
        "only they answer",
        "the old drain made a job, the shadow a stop",
        "the shadow's reason: is it true of the conversation? If so the old drain doesn't look at that, and "
        "customers will notice that Rajada does; if not, the table that it is read from is not kept up",
    ),
    "only_ours": Told(
        "only we answer",
        "the shadow made a job, the old drain none",
        "which rule the old drain has that Rajada has not; or a message that it lost",
    ),
    "other_stop": Told(
        "silent for another reason",
        "both made no job, and the old drain tells another reason",
        "the order of the stops (docs/decisions.md); nobody is answered differently",
    ),
    "split": Told(
        "they answer several times",
        "one window here, more than one job there: each bubble, or each few, by itself",
        "that is what windows are for; if they should be shorter, INBOUND_DEBOUNCE_MS or the agent's own",
    ),
    "joined": Told(
        "they answer once",
        "the old drain's job for an earlier message answers this window, too",
        "where its windows end: it counts from when it polls, Rajada from when the message was written",
    ),
    "they_left": Told(
        "they left it",
        "the old drain has not finished the event within ten minutes",
        "is the old drain on? Else what it says of the event (last_error)",
    ),
    "they_failed": Told(
        "they gave up",
        "the event is dead there",
        "event_log.last_error tells why; Rajada would have answered",
    ),
    "we_failed": Told(
        "we gave up",
        "the shadow could not decide: an event outside the contract, or five failures",
        "the topic `shadow.dispatch.dead`, and `rajada doctor`: customers would not be answered",
    ),
    "unseen": Told(
        "we never saw it",
        "an event in event_log that did not come to the shadow",
        "the publisher: `rajada doctor`, lines `slot` and `publication`",
    ),
}
"""Kind → what it means."""

NOT_COMPARABLE: Final[Mapping[NotComparable, Told]] = {
    "their_job_ran": Told(
        "their job ran meanwhile",
        "a job of the old drain's ran between the two decisions, and may have changed what they look at",
    ),
    "facts_changed": Told(
        "the facts changed meanwhile",
        "the shadow's first look and its decision differ, and no job ran: somebody changed something. The "
        "old drain decides when it finds a message, Rajada when the window ends",
    ),
    "we_were_late": Told(
        "the shadow was late",
        "it decided more than ten seconds after the window's end: it was off, or behind",
    ),
    "not_yet": Told("not yet", "the old drain has not finished the event"),
    "no_row": Told("no row", "an event without a row in event_log: produced by hand, or deleted since"),
    "replayed": Told("replayed", "the event was sent again by `rajada replay` or the sweep"),
    "by_rajada": Told("by Rajada", "Rajada itself has done it: the switch has happened"),
}
"""Why a difference doesn't count → what that means."""


WORDS: Final[Mapping[str, Told]] = {
    **{str(kind): told for kind, told in KINDS.items()},
    **{str(why): told for why, told in NOT_COMPARABLE.items()},
}
"""Both by name, as a report has them."""


def as_markdown() -> str:
    """The tables of docs/shadow.md."""
    lines = ["| kind | what it is | what to look at |", "| --- | --- | --- |"]
    for kind in (*SAME, *DIFFERENCES):
        told = KINDS[kind]
        lines.append(f"| `{kind}`: {told.title} | {told.is_} | {told.look} |")
    lines += ["", "| not comparable | what it is |", "| --- | --- |"]
    lines += [f"| `{name}`: {told.title} | {told.is_} |" for name, told in NOT_COMPARABLE.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(as_markdown(), end="")
