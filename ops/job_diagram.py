"""The state machine of a job as it is drawn in docs/jobs.md: `python -m ops.job_diagram` prints it.

Everything comes from `streams.job_table`; a test holds the page to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from streams.heads import State
from streams.job_table import TABLE, Event, Targets

WORDS: Final[Mapping[str, str]] = {
    Event.RECORD: "its record is read from `dispatch.jobs`: new, or back from the delay topics",
    Event.VERIFIED: "its row was looked at: it has not ended meanwhile",
    Event.ENDED_BEFORE: "its row was looked at: it has",
    Event.START: "its turn has come; an attempt is spent",
    Event.SUCCEED: "answered",
    Event.RETRY: "not now; dead when its attempts are spent, held when somebody asked for it",
    Event.VETO: "never (409, 410, `cancelled`)",
    Event.DIE: "it can't be done (another 4xx)",
    Event.SUSPEND: "somebody must act first (no engine, no credentials)",
    Event.LOSE: "its worker died during the call",
    Event.HAND_BACK: "its worker stops before the answer",
    Event.NOT_WORKING: "its number is not connected",
    Event.MERGE: "a newer turn takes it in",
    Event.COVER: "a newer turn is done",
    Event.CANCEL: "by a person",
    Event.RUN_NOW: "by a person",
    Event.HOLD: "by a person; of a running one it counts when the attempt has ended",
    Event.RELEASE: "by a person, or since there is an engine by now",
    Event.REQUEUE: "its dead letter is requeued",
    "recover": "its row has said for too long that it runs, and nobody here knows it",
    "settle": "a group link's message reached its person by another way (a reminder)",
}
"""What each event means, by name."""

_ASIDE: Final = frozenset({State.AWAITED, State.UNVERIFIED})
"""States that few jobs see: in the table, not in the picture."""


def diagram() -> str:
    """The states that most jobs see, as a Mermaid diagram; what leads a state to itself is left out."""
    edges: dict[tuple[State | None, State], list[str]] = {}
    for event, row in TABLE.items():
        for source, targets in row.items():
            for target in targets:
                if source is not target and not {source, target} & _ASIDE:
                    edges.setdefault((source, target), []).append(event.value)
    order = [None, *State]
    lines = ["stateDiagram-v2", "    direction LR"]
    lines += [
        f"    {_node(source)} --> {target.value}: {', '.join(events)}"
        for (source, target), events in sorted(
            edges.items(), key=lambda edge: (order.index(edge[0][0]), order.index(edge[0][1]))
        )
    ]
    lines += [f"    {state.value} --> [*]" for state in State if state.ended]
    return "\n".join(lines) + "\n"


def table() -> str:
    """Every event, what it means and where it leads from where."""
    lines = ["| event | | from → to |", "| --- | --- | --- |"]
    lines += [f"| {event.value} | {WORDS[event]} | {'; '.join(_ways(row))} |" for event, row in TABLE.items()]
    return "\n".join(lines) + "\n"


def as_markdown() -> str:
    """Both, as they stand in docs/jobs.md."""
    return f"```mermaid\n{diagram()}```\n\n{table()}"


def _ways(row: Mapping[State | None, Targets]) -> Iterator[str]:
    """Where an event leads, sources that lead to the same together."""
    together: dict[Targets, list[str]] = {}
    for source, targets in row.items():
        together.setdefault(targets, []).append(source.value if source is not None else "new")
    for targets, sources in together.items():
        told = ", ".join(target.value for target in targets)
        yield f"{', '.join(sources)} stays" if sources == [told] else f"{', '.join(sources)} → {told}"


def _node(state: State | None) -> str:
    return "[*]" if state is None else state.value


if __name__ == "__main__":
    print(as_markdown(), end="")
