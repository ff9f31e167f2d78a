"""Rules about jobs (pure): each one end and one effect, in order, nothing early."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Final

from chaos.stack.books import JOB_ENDS, Books, Call, superseded

ANSWERED_DUE_MS: Final = {429: 1_000}
"""Status → how long the next attempt must at least wait after it, ms; the engine says `Retry-After: 1`."""
FAILED_FROM: Final = 500
BACKOFF_MS: Final = 10_000
"""The wait after the first failure; it doubles (docs/jobs.md)."""
BACKOFF_MOST_MS: Final = 120_000
UNANSWERED: Final = ("retry:", "handed_back")
"""How the trace tells of an attempt whose answer, if there was one, did not arrive."""


def jobs_without_end(books: Books) -> Iterator[str]:
    """Jobs that are not done, failed or dead."""
    for job_id, job in books.jobs.items():
        if job.status not in JOB_ENDS:
            yield f"job {job_id} is {job.status} ({job.last_error})"


def done_without_effect(books: Books) -> Iterator[str]:
    """Jobs that say they are done, that no other took over, and that the engine never did."""
    effects = {call.job_id for call in books.calls if call.effect}
    taken_over = superseded(books.trace)
    for job_id, job in books.jobs.items():
        if job.status == "done" and job_id not in effects and job_id not in taken_over:
            yield f"job {job_id} is done and had no effect"


def effects_twice(books: Books) -> Iterator[str]:
    """Jobs whose effect was had more than once."""
    effects = Counter(call.job_id for call in books.calls if call.effect)
    for job_id, count in effects.items():
        if count > 1:
            yield f"job {job_id} had its effect {count} times"


def effects_unknown(books: Books) -> Iterator[str]:
    """Effects of jobs that have no row: nobody would ever know of them."""
    for call in books.calls:
        if call.effect and call.job_id not in books.jobs:
            yield f"job {call.job_id} had its effect and has no row"


def attempts_twice(books: Books) -> Iterator[str]:
    """Attempts that were called twice, though no graceful stop gave them back.

    The client may send a request once more at once when its kept connection broke, and says so
    (docs/agent-engine.md). That much is allowed, see `sent_again`.
    """
    back = Counter(one.job_id for one in books.trace if one.outcome == "handed_back")
    calls = Counter((call.job_id, call.attempt) for call in books.calls)
    dropped = {call.job_id for call in books.calls if call.mode == "drop"}
    allowed = back + sent_again(books)
    again = Counter[str]()
    for (job_id, _), count in calls.items():
        again[job_id] += count - 1
    for job_id, count in again.items():
        if count > allowed[job_id] and job_id not in dropped:
            yield f"job {job_id}: {count} calls more than attempts, handed back {back[job_id]} times"


def sent_again(books: Books) -> Counter[str]:
    """Job → calls that the client sent once more, as it says itself; of one attempt one."""
    attempts = {(call.job_id, call.attempt) for call in books.calls if call.sent_again}
    return Counter(job_id for job_id, _ in attempts)


def disorder(books: Books) -> Iterator[str]:
    """Conversations that were answered in another order than their messages have on the topic.

    A newer turn passes an older one that waits for its retry. Once it is done, the older one is covered; if
    its answer was lost with a worker or a connection, nobody knows that, and the older one's retry comes
    first (spec/jobs.md, *Retry and order*).
    """
    failed = Counter(one.job_id for one in books.trace if (one.outcome or "").startswith(UNANSWERED))
    by_conversation: dict[str, list[tuple[int, int, Call]]] = defaultdict(list)
    for call in books.calls:
        places = [books.places[event][1] for event in call.event_ids if event in books.places]
        if call.effect and places and call.ended_ms is not None:
            by_conversation[call.conversation_id].append((call.at_ms, max(places), call))
    for conversation, answers in by_conversation.items():
        newest = newest_known = -1
        for _, place, call in sorted(answers, key=itemgetter(0)):
            if place < (newest_known if call.attempt > 1 else newest):
                job = f"job {call.job_id}"
                yield f"conversation {conversation}: {job} answered an older message after a newer one"
            newest = max(newest, place)
            if failed[call.job_id] < call.attempt:
                newest_known = max(newest_known, place)


def together(books: Books) -> Iterator[str]:
    """Two calls of one contact at a time, where no worker was lost or stopped during the first."""
    hurt = {one.job_id for one in books.trace if one.outcome in ("handed_back", "retry:worker_lost")}
    by_contact: dict[str, list[Call]] = defaultdict(list)
    for call in books.calls:
        if call.ended_ms is not None and call.job_id not in hurt and call.mode not in ("hang", "drop"):
            by_contact[call.contact_id].append(call)
    for contact, calls in by_contact.items():
        calls.sort(key=lambda call: call.at_ms)
        for one, other in pairwise(calls):
            if other.at_ms < (one.ended_ms or 0) and one.job_id != other.job_id:
                yield f"contact {contact}: jobs {one.job_id} and {other.job_id} were called together"


def early(books: Books) -> Iterator[str]:
    """Jobs that were called before the window of their first message was over."""
    put = {one.event_id: one for one in books.put}
    for call in books.calls:
        first = next((put[event] for event in call.event_ids if event in put), None)
        if first is not None and call.at_ms < first.before_ms + books.window_ms:
            wait = call.at_ms - first.before_ms
            yield f"job {call.job_id} was called {wait} ms after its first message, window {books.window_ms}"


def retried_early(books: Books) -> Iterator[str]:
    """Attempts that came before the wait after the failed one was over."""
    by_job: dict[str, dict[int, Call]] = defaultdict(dict)
    for call in books.calls:
        by_job[call.job_id].setdefault(call.attempt, call)
    for job_id, attempts in by_job.items():
        for number, failed in attempts.items():
            following = attempts.get(number + 1)
            if following is None or failed.ended_ms is None or failed.status is None:
                continue
            least = ANSWERED_DUE_MS.get(failed.status, 0) if number == 1 else 0
            if failed.status >= FAILED_FROM:
                least = min(BACKOFF_MS << (number - 1), BACKOFF_MOST_MS)
            if following.at_ms < failed.ended_ms + least:
                wait = following.at_ms - failed.ended_ms
                yield f"job {job_id}: attempt {number + 1} came {wait} ms after HTTP {failed.status}"
