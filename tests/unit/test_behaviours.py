"""Every known fact about the reference system has a test that names it, or a reason why it has none.

`tests/cases/behaviours.json` lists them (id, area, given, when, then).
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

import pytest

from tests.unit.behaviour_ids import ids_in, mentions

TESTS = Path(__file__).parents[1]

HOLDS = (
    "does not apply: follow-ups and their holds are the CRM's; inbound turns look at the session before a run"
)
RETENTION = "later: retention of ended rows"
OTHER_DRAIN = "does not apply: the drain of the CRM's other event types, which stays the CRM's"

NOT_TESTED = {
    "b134": "does not apply: no poll loop here, records and timers wake the worker",
    **dict.fromkeys(("b158", "b159", "b160"), HOLDS),
    "b174": "does not apply: a check of the CRM's own table; a turn made here always has its contact",
    "b183": RETENTION,
    **dict.fromkeys(("b184", "b185", "b186"), OTHER_DRAIN),
}
"""Behaviour → why no test names it."""

DIFFERENT = {
    "b008": "ids are compared as UUIDs, so upper case loses nothing",
    "b015": "all facts are read in one round trip; the stop needs none of the later ones",
    "b046": "inside one window both messages belong to the job; in a later window it is superseded",
    "b049": "of one burst every event belongs to the job; only far apart the older ones are superseded",
    "b072": "the window stays open and takes further events; the event is not put back",
    "b087": "an event rides by joining a window, not a job",
    "b089": "a window that is open when the length becomes 0 still takes the message",
    "b090": "a window of its own, by the time of the event and not of its processing",
    "b094": "no job absorbs anything, so nothing vanishes in one at infinity",
    "b095": "an open window takes the message; rows of the queue, held or not, absorb nothing",
    "b096": "a retry never absorbs",
    "b097": "one window per conversation",
    "b098": "the installation's window is clamped too",
    "b100": "what is not a number means the installation's window",
    "b103": "two conversations of a contact are two windows and two jobs",
    "b105": "a message at the very deadline is the window's: 8 turns of 3 instead of 12 of 2",
    "b106": "65 s instead of 112 s; merging waiting turns will make it less",
    "b107": "11 and 1 instead of 10 and 2",
    "b112": "found by stop 0 as done, with its job",
    "b117": "a dead event carries no next attempt",
    "b118": "one alert, with the count",
    "b123": "no second alert; the open one is counted up",
    "b125": "an advisory lock; an index of the CRM's own counts as already open",
    "b128": "nobody claims; the sweep takes without spending, and attempts rise with the outcome",
    "b129": "the order of the log, per contact",
    "b131": "published again, in order, with a backoff",
    "b136": "so the sweep; an unexpected error of the streams ends the process, which is restarted",
    "b146": "a silence until infinity counts as silenced",
    "b166": "the fence refuses: the process ends, nothing is written that would have to be rolled back",
    "b169": "one alert an organization and kind of job, with the count",
    "b173": "noticed when another worker takes over, not after 10 minutes; it waits the backoff",
    **dict.fromkeys(
        ("b175", "b176", "b177", "b178", "b179"),
        "no poll loop, no clock query: the lanes know what is due",
    ),
    "b180": "handed back, with the attempt, instead of left to a reaper",
}
"""Behaviour → how ours differs on purpose; its test proves ours."""


@lru_cache(maxsize=1)
def known() -> frozenset[str]:
    """All ids."""
    told = json.loads((TESTS / "cases" / "behaviours.json").read_text("utf-8"))
    return frozenset(row["id"] for row in told)


@lru_cache(maxsize=1)
def named() -> tuple[dict[str, set[str]], list[str]]:
    """Id → the files of the tests that name it; and ids that stand where they prove nothing."""
    tests: dict[str, set[str]] = defaultdict(set)
    astray: list[str] = []
    for file in sorted(TESTS.rglob("test_*.py")):
        if file == Path(__file__):
            continue
        place = file.relative_to(TESTS).as_posix()
        for one in mentions(file.read_text("utf-8")):
            if one.counts:
                tests[one.id].add(place)
            else:
                astray.append(f"{place}:{one.line}: {one.id}")
    return dict(tests), astray


@pytest.mark.thorough
def test_every_behaviour_has_a_test_or_a_reason() -> None:
    tests, _ = named()
    missing = sorted(known() - tests.keys() - NOT_TESTED.keys())
    assert not missing, f"name a test by these ids, or say in NOT_TESTED why there is none: {missing}"


@pytest.mark.thorough
def test_no_reason_outlives_its_test() -> None:
    tests, _ = named()
    both = {name: sorted(tests[name]) for name in NOT_TESTED if name in tests}
    assert not both, f"these have tests now, take them out of NOT_TESTED: {both}"


@pytest.mark.thorough
def test_only_known_behaviours_are_named() -> None:
    tests, _ = named()
    unknown = sorted((tests.keys() | NOT_TESTED.keys() | DIFFERENT.keys()) - known())
    assert not unknown, f"tests/cases/behaviours.json doesn't know {unknown}"


@pytest.mark.thorough
def test_ids_stand_in_the_heads_of_tests() -> None:
    _, astray = named()
    assert not astray, f"move these to a test's name, docstring, parameters or pytest ids: {astray}"


@pytest.mark.thorough
def test_what_differs_is_proven() -> None:
    tests, _ = named()
    assert not DIFFERENT.keys() - tests.keys()


# -- how ids are found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("test_b010_to_b012_only", ["b010", "b011", "b012"]),
        ("b010 to b011, b020", ["b010", "b011", "b020"]),
        ("(b010–b011)", ["b010", "b011"]),
        ("test_b021_b022_groups", ["b021", "b022"]),
        ("314f9afd-a7b7-525a-b356-0bf6994c6832 0xb001 b0123 ab012", []),
    ],
)
def test_ids_and_ranges(text: str, found: list[str]) -> None:
    assert list(ids_in(text)) == found


HEADS = '''
"""b001"""
USED = {"b002": 1}  # b003
OTHER = ["b004"]
# b005
@pytest.mark.parametrize("x", USED)  # b006
def test_b007(x):  # b008
    """b009"""
    assert x == "b010"  # b011
def test_more(
    x,  # b012
): pass
@pytest.mark.parametrize("x", [pytest.param(1, id="b013")])
async def test_last(x):
    # b014
    pass
'''


def test_only_the_heads_of_tests_and_their_tables_count() -> None:
    found = mentions(HEADS)
    assert {one.id for one in found if one.counts} == {
        *("b002", "b003", "b005", "b006", "b007", "b008", "b009", "b012", "b013", "b014")
    }
    assert {one.id for one in found if not one.counts} == {"b001", "b004", "b010", "b011"}
