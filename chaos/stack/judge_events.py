"""Rules about events (pure): each has exactly one end, a job, a stop or a dead letter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chaos.stack.books import ENDS, JOB_ENDS, Books, answered, ends, ends_told, left_to, superseded, there


def without_end(books: Books) -> Iterator[str]:
    """Events that were put in and are not done or dead, by row or, without a row, by trace."""
    told = ends_told(books.trace)
    for one in there(books):
        row = books.events.get(one.event_id)
        if row is not None:
            if row.status not in ENDS:
                yield f"event {one.event_id} is {row.status}"
        elif one.event_id in books.places and one.event_id not in told:
            yield f"event {one.event_id} has no row, was published, and the trace tells no end of it"


def rows_gone(books: Books) -> Iterator[str]:
    """Events whose row is gone though no backup was restored."""
    for one in books.put:
        if one.known and one.event_id not in books.events and not books.restored:
            yield f"event {one.event_id} has no row any more"


def in_two_jobs(books: Books) -> Iterator[str]:
    """Events that the engine was made to answer in more than one job."""
    jobs: dict[str, set[str]] = defaultdict(set)
    for call in books.calls:
        if call.effect:
            for event_id in call.event_ids:
                jobs[event_id].add(call.job_id)
    for event_id, found in jobs.items():
        if len(found) > 1:
            yield f"event {event_id} was answered in jobs {', '.join(sorted(found))}"


def unanswered(books: Books) -> Iterator[str]:
    """Events whose end is a job, but no such job was answered, failed or died; or that aren't in it."""
    done = answered(books)
    taken_over, left = superseded(books.trace), left_to(books)
    for one, end in ends(books):
        if end.outcome != "job":
            continue
        job = books.jobs.get(end.job_id or "")
        if job is None:
            if not books.restored:
                yield f"event {one.event_id} names job {end.job_id}, which has no row"
        elif job.status not in JOB_ENDS:
            continue  # told by `jobs_without_end`
        elif (one.event_id, end.job_id) in left:
            continue  # its own job was merged or covered by that one, which read the whole conversation
        elif job.status == "done" and one.event_id not in done and end.job_id not in taken_over:
            yield f"event {one.event_id} was never answered, though job {end.job_id} is done"


def stopped_and_answered(books: Books) -> Iterator[str]:
    """Events with a stop, or dead, that a job answered all the same."""
    done = answered(books)
    for one, end in ends(books):
        if end.outcome != "job" and one.event_id in done:
            yield f"event {one.event_id} is {end.status} ({end.outcome}) and was answered"


def stops_without_reason(books: Books) -> Iterator[str]:
    """Events that are done without an outcome."""
    for one, end in ends(books):
        if end.status == "done" and not end.outcome:
            yield f"event {one.event_id} is done and nobody says how"


def dead_without_letter(books: Books) -> Iterator[str]:
    """Dead events and jobs without a letter that keeps their bytes."""
    events = {letter.event_id for letter in books.letters}
    jobs = {letter.job_id for letter in books.letters}
    for event_id, row in books.events.items():
        if row.status == "dead" and event_id not in events:
            yield f"event {event_id} is dead without a letter"
    for job_id, job in books.jobs.items():
        if job.status == "dead" and job_id not in jobs:
            yield f"job {job_id} is dead without a letter"


def letters_of_the_living(books: Books) -> Iterator[str]:
    """Letters about an event or a job that is not dead: it would have two ends."""
    for letter in books.letters:
        if letter.job_id is not None and (job := books.jobs.get(letter.job_id)) is not None:
            if job.status != "dead":
                yield f"job {letter.job_id} is {job.status} and has a letter ({letter.reason})"
        elif (row := books.events.get(letter.event_id or "")) is not None and row.status != "dead":
            yield f"event {letter.event_id} is {row.status} and has a letter ({letter.reason})"
