"""The auditor of the whole stack finds what is planted into the books of a good run, each by its rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from chaos.stack.audit import RULES, audit
from chaos.stack.books import Alert, Books, Call, EventRow, JobRow, Letter, Link, Put, Told

ORGANIZATION = "org"
WINDOW_MS = 1_000


def put(name: str, at_ms: int, contact: str = "ana") -> Put:
    return Put(name, f"m-{name}", contact, f"c-{contact}", at_ms, known=True, after_ms=at_ms + 5)


def call(job: str, events: list[str], at_ms: int, contact: str = "ana", **more: object) -> Call:
    whole = Call(
        job, 1, contact, f"c-{contact}", tuple(events), at_ms, at_ms + 60, 200, effect=True
    )  # fmt: skip
    return replace(whole, **more)  # type: ignore[arg-type]


def good() -> Books:
    """Ana wrote twice, then once more; Bia's turn failed once; Caio was stopped; Davi's job died."""
    return Books(
        put=[
            put("a1", 0), put("a2", 100), put("a3", 5_000), put("b1", 0, "bia"), put("c1", 0, "caio"),
            put("d1", 0, "davi"),
        ],
        events={
            **{name: EventRow("done", "job", "A") for name in ("a1", "a2")},
            "a3": EventRow("done", "job", "A2"),
            "b1": EventRow("done", "job", "B"),
            "c1": EventRow("done", "superseded_by_newer_inbound"),
            "d1": EventRow("done", "job", "D"),
        },
        jobs={
            "A": JobRow("done", ORGANIZATION, "ana", ("a1", "a2")),
            "A2": JobRow("done", ORGANIZATION, "ana", ("a3",)),
            "B": JobRow("done", ORGANIZATION, "bia", ("b1",)),
            "D": JobRow("dead", ORGANIZATION, "davi", ("d1",)),
        },
        trace=[Told("a1", "A", "decide", "done", "job"), Told("c1", None, "decide", "done", "superseded")],
        calls=[
            call("A", ["a1", "a2"], 1_010),
            call("A2", ["a3"], 6_050),
            call("B", ["b1"], 1_020, "bia", status=503, effect=False),
            call("B", ["b1"], 11_200, "bia", attempt=2),
            call("D", ["d1"], 1_020, "davi", status=422, effect=False),
        ],
        letters=[Letter(None, "D", "http_422")],
        alerts=[Alert(ORGANIZATION, "job_dead", "open", 1), Alert(None, "clock_skew", "resolved", 2)],
        links=[Link("+55", "sent", 1), Link("+56", "held", 1)],
        places={"a1": (0, 0), "a2": (0, 1), "a3": (0, 9), "b1": (1, 0), "c1": (1, 1), "d1": (1, 2)},
        window_ms=WINDOW_MS,
    )  # fmt: skip


def rules(books: Books) -> set[str]:
    return {one.rule for one in audit(books)}


def test_a_good_run_has_no_findings() -> None:
    assert audit(good()) == []


def events(books: Books, **changed: EventRow) -> Books:
    return replace(books, events={**books.events, **changed})


def jobs(books: Books, **changed: JobRow) -> Books:
    return replace(books, jobs={**books.jobs, **changed})


def calls(books: Books, *more: Call) -> Books:
    return replace(books, calls=[*books.calls, *more])


def without(books: Books, event: str) -> Books:
    return replace(books, events={name: row for name, row in books.events.items() if name != event})


def b_failed(books: Books) -> Books:
    """Bia's first job waits for its retry, her second is merged into her third, which covers the first."""
    books = replace(books, put=[*books.put, put("b2", 900, "bia"), put("b3", 1_900, "bia")])
    books = jobs(
        books,
        B2=JobRow("done", ORGANIZATION, "bia", ("b2",)),
        B3=JobRow("done", ORGANIZATION, "bia", ("b3",)),
    )
    books = events(books, **{name: EventRow("done", "job", "B3") for name in ("b1", "b2", "b3")})
    told = [
        Told(None, "B", "execute", "done", "covered_by:B2"),
        Told(None, "B2", "execute", "done", "merged:B3"),
    ]
    return replace(
        books,
        trace=[*books.trace, *told],
        calls=[one for one in books.calls if one.job_id != "B" or one.attempt == 1],
        places={**books.places, "b2": (1, 3), "b3": (1, 4)},
    )


def passed_and_lost(books: Books, *lost: str) -> Books:
    """Eva's first turn is refused, her second passes it, its answer is lost; then the first is answered."""
    books = replace(books, put=[*books.put, put("e1", 0, "eva"), put("e2", 2_000, "eva")])
    books = jobs(
        books,
        E1=JobRow("done", ORGANIZATION, "eva", ("e1",)),
        E2=JobRow("done", ORGANIZATION, "eva", ("e2",)),
    )
    books = events(books, e1=EventRow("done", "job", "E1"), e2=EventRow("done", "job", "E2"))
    books = calls(
        books,
        call("E1", ["e1"], 1_020, "eva", status=503, effect=False),
        call("E2", ["e2"], 3_020, "eva"),
        call("E1", ["e1"], 11_500, "eva", attempt=2),
        call("E2", ["e2"], 23_500, "eva", attempt=2, effect=False, replayed=True),
    )
    told = [Told(None, job, "execute", "pending", "retry:worker_lost") for job in lost or ("E1", "E2")]
    return replace(books, trace=[*books.trace, *told], places={**books.places, "e1": (1, 3), "e2": (1, 4)})


PLANTED: dict[str, tuple[str, Callable[[Books], Books]]] = {
    "an event that stays pending": ("event without end", lambda b: events(b, c1=EventRow("pending"))),
    "a published event that a restore took, of which nobody tells": (
        "event without end",
        lambda b: replace(without(b, "b1"), restored=True),
    ),
    "a row that is lost": ("row gone", lambda b: without(b, "c1")),
    "an event in two jobs": (
        "event in two jobs",
        lambda b: calls(b, call("X", ["c1"], 9_000, "caio"), call("Y", ["c1"], 9_500, "caio")),
    ),
    "an event whose job was never called": (
        "event not answered",
        lambda b: replace(b, calls=[one for one in b.calls if one.job_id != "A2"]),
    ),
    "an event that its job does not hold": (
        "event not answered",
        lambda b: replace(
            b, calls=[replace(one, event_ids=("a1",)) if one.job_id == "A" else one for one in b.calls]
        ),
    ),
    "an event that names a job that took over another one, not its own": (
        "event not answered",
        lambda b: replace(
            calls(b_failed(b), call("B3", ["b3"], 3_000, "bia")),
            trace=[*b.trace, Told(None, "B", "execute", "done", "covered_by:B3")],
        ),
    ),
    "an older turn that was tried again after the newer one was known to be done": (
        "out of order",
        lambda b: passed_and_lost(b, "E1"),
    ),
    "an attempt that was called again, and the client does not say that it sent it once more": (
        "attempt called twice",
        lambda b: calls(b, call("A2", ["a3"], 6_100, effect=False, replayed=True)),
    ),
    "an attempt that was called three times": (
        "attempt called twice",
        lambda b: calls(
            b, *(call("A2", ["a3"], at_ms, effect=False, sent_again=True) for at_ms in (7_000, 8_000))
        ),
    ),
    "an event that names a job without a row": (
        "event not answered",
        lambda b: events(b, a3=EventRow("done", "job", "nobody")),
    ),
    "a stop that was answered": (
        "event stopped and answered",
        lambda b: calls(b, call("A9", ["c1"], 9_000, "caio")),
    ),
    "a dead event that was answered": (
        "event stopped and answered",
        lambda b: events(b, a3=EventRow("dead", "failed")),
    ),
    "a silence": ("stop without reason", lambda b: events(b, c1=EventRow("done"))),
    "a death without its bytes": ("dead without letter", lambda b: replace(b, letters=[])),
    "a letter of an event that is done": (
        "letter of the living",
        lambda b: replace(b, letters=[*b.letters, Letter("c1", None, "contact_missing")]),
    ),
    "a letter of a job that is done": (
        "letter of the living",
        lambda b: replace(b, letters=[*b.letters, Letter(None, "A", "http_500")]),
    ),
    "a job that runs for ever": (
        "job without end",
        lambda b: jobs(b, A=JobRow("running", ORGANIZATION, "ana", ("a1", "a2"))),
    ),
    "a job that is done and was not": (
        "done without effect",
        lambda b: jobs(b, Z=JobRow("done", ORGANIZATION, "zoe", ("z1",))),
    ),
    "an effect twice": ("effect twice", lambda b: calls(b, call("A", ["a1", "a2"], 2_000))),
    "an effect that no row knows": ("effect of no job", lambda b: calls(b, call("?", [], 9_000, "eva"))),
    "an attempt that was called again": (
        "attempt called twice",
        lambda b: calls(b, call("A", ["a1", "a2"], 2_000, effect=False, status=503)),
    ),
    "an older message after a newer one": (
        "out of order",
        lambda b: replace(b, places={**b.places, "a3": (0, 0), "a1": (0, 5), "a2": (0, 6)}),
    ),
    "two turns of a contact at once": (
        "two jobs at a time",
        lambda b: calls(b, call("A3", ["a9"], 6_060)),
    ),
    "a call before the window's end": (
        "early",
        lambda b: replace(
            b, calls=[replace(one, at_ms=999) if one.job_id == "A" else one for one in b.calls]
        ),
    ),
    "a retry before its time": (
        "retried early",
        lambda b: replace(
            b, calls=[replace(one, at_ms=9_000) if one.attempt == 2 else one for one in b.calls]
        ),
    ),
    "a death that nobody is told of": ("alert missing", lambda b: replace(b, alerts=[])),
    "a slot that went unnoticed": ("alert missing", lambda b: replace(b, faults={"slot": 1})),
    "an alert of what is well": (
        "alert false",
        lambda b: replace(b, alerts=[*b.alerts, Alert(None, "event_dead", "open")]),
    ),
    "an alert that does not heal": (
        "alert false",
        lambda b: replace(b, alerts=[*b.alerts, Alert(None, "clock_skew", "open")]),
    ),
    "two alerts of one thing": (
        "alert doubled",
        lambda b: replace(b, alerts=[*b.alerts, Alert(ORGANIZATION, "job_dead", "open")]),
    ),
    "a group link that came twice": ("group link", lambda b: replace(b, links=[Link("+55", "sent", 2)])),
    "a group link that never came": ("group link", lambda b: replace(b, links=[Link("+55", "sent", 0)])),
    "a group link that was forgotten": ("group link", lambda b: replace(b, links=[Link("+55", None, 0)])),
    "a group link that waits for ever": (
        "group link",
        lambda b: replace(b, links=[Link("+5", "pending", 0)]),
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_planted_is_found_by_its_rule(planted: str) -> None:
    rule, plant = PLANTED[planted]
    assert rule in rules(plant(good()))


def test_every_rule_has_something_planted_for_it() -> None:
    assert {rule for rule, _ in PLANTED.values()} == RULES.keys()


def test_what_is_allowed_is_no_finding() -> None:
    books = good()
    merged = jobs(books, M=JobRow("done", ORGANIZATION, "ana", ("a3",)))
    merged = replace(merged, trace=[*books.trace, Told(None, "M", "execute", "done", "merged:A2")])
    assert audit(merged) == [], "a job that a newer one took over has no effect of its own"
    covered = calls(b_failed(books), call("B3", ["b3"], 3_000, "bia"))
    assert audit(covered) == [], "events of a covered job name the one that took over, in two steps here"
    lost = passed_and_lost(books)
    assert audit(lost) == [], "the newer one's answer was lost, so the older one was tried first"
    again = calls(books, call("A2", ["a3"], 8_000, effect=False, sent_again=True))
    assert audit(again) == [], "a kept connection broke, the client sent the request once more at once"
    unknown = replace(books, put=[*books.put, Put("u", "m", "ana", "c-ana", 0)])
    assert audit(unknown) == [], "nobody knows whether it was committed, and there is no row"
    back = calls(books, call("A", ["a1", "a2"], 1_500, effect=False, replayed=True))
    back = replace(back, trace=[*books.trace, Told(None, "A", "execute", "pending", "handed_back")])
    assert audit(back) == [], "a graceful stop gave the attempt back"
    restored = replace(
        without(books, "c1"), restored=True, trace=[*books.trace, Told("c1", None, "decide", "done", "stop")]
    )
    assert audit(restored) == [], "an event without a row stands in the trace"
