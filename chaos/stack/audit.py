"""What a run must have left behind (pure): each event one end, each effect once, in order, nothing early.

Each rule is a function from the books to what breaks it; `audit` asks all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from chaos.stack import judge_events, judge_jobs, judge_told
from chaos.stack.books import Books

SAMPLE: Final = 3


RULES: Final[dict[str, Callable[[Books], Iterable[str]]]] = {
    "event without end": judge_events.without_end,
    "row gone": judge_events.rows_gone,
    "event in two jobs": judge_events.in_two_jobs,
    "event not answered": judge_events.unanswered,
    "event stopped and answered": judge_events.stopped_and_answered,
    "stop without reason": judge_events.stops_without_reason,
    "dead without letter": judge_events.dead_without_letter,
    "letter of the living": judge_events.letters_of_the_living,
    "job without end": judge_jobs.jobs_without_end,
    "done without effect": judge_jobs.done_without_effect,
    "effect twice": judge_jobs.effects_twice,
    "effect of no job": judge_jobs.effects_unknown,
    "attempt called twice": judge_jobs.attempts_twice,
    "out of order": judge_jobs.disorder,
    "two jobs at a time": judge_jobs.together,
    "early": judge_jobs.early,
    "retried early": judge_jobs.retried_early,
    "alert missing": judge_told.alerts_missing,
    "alert false": judge_told.alerts_false,
    "alert doubled": judge_told.alerts_doubled,
    "group link": judge_told.links_lost_or_doubled,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What must not have happened: the rule that it breaks, how many there are, and some of them."""

    rule: str
    count: int
    examples: Sequence[str]


def audit(books: Books) -> list[Finding]:
    """Everything that is wrong; empty: all is well."""
    found = []
    for name, rule in RULES.items():
        wrong = sorted(set(rule(books)))
        if wrong:
            found.append(Finding(name, len(wrong), wrong[:SAMPLE]))
    return found
