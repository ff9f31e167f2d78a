"""Where something is now and what it waits for, from what the worker remembers and the rows say (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from ops.moments import clock, day, local, span
from ops.reasons import STATES, reason
from ops.why.evidence import EventRow, JobRow, Live, SweptRow
from streams.contact import Contact, Window
from streams.freezing import MAX_ATTEMPTS
from streams.media import CEILING_MS
from streams.sweep import CONSUMER

GRACE_MS: Final = 2_000
"""A window that is overdue by more than this waits for something."""


class Now(msgspec.Struct, frozen=True, kw_only=True):
    """One answer to: where is it, and when does it go on?"""

    about: str
    """`event <id>`, `job <id>`, `conversation <id>`."""
    state: str
    """A name for programs: open_window, waits_for_media, retry, sending, sent, unread, lost, …"""
    text: str
    at_ms: int | None = None
    """When it goes on, Unix ms; None: it has ended, or nobody knows."""


def event_now(
    event_id: str, row: EventRow | None, live: Live | None, swept: SweptRow | None, now_ms: int, reap_ms: int
) -> Now | None:
    """Where an event is; None when nothing tells (its end stands in the story).

    `reap_ms` is after which time the sweep takes an event that stays pending.
    """
    about = f"event {event_id}"
    window = window_of(live.contact, event_id) if live is not None and live.contact is not None else None
    if window is not None and live is not None:
        return window_now(about, window, live, now_ms)
    if row is None or row.status in ("done", "dead"):
        return None
    if live is not None and live.contact is not None:
        seen = _seen(live.contact, event_id)
        if seen is not None:
            return _sent(about, seen, live)
    if row.status == "processing" and CONSUMER not in row.consumed_by:
        who = ", ".join(row.consumed_by) or "nobody named"
        return Now(about=about, state="elsewhere", text=f"is processed by another system ({who})")
    if live is None:
        return Now(about=about, state="unknown", text=f"is {row.status}; what the worker knows can't be read")
    if live.unread:
        return Now(
            about=about,
            state="unread",
            text=f"may wait in the topic: the worker has yet to read {live.unread:,} records of partition "
            f"{live.partition}",
        )
    return _missing(about, row, swept, now_ms, reap_ms)


def window_now(about: str, window: Window, live: Live, now_ms: int) -> Now:
    """What a window that the worker holds waits for."""
    messages = f"{len(window.events)} message{'s' if len(window.events) != 1 else ''}"
    if window.state == "frozen" and window.frozen is not None:
        what = reason(window.frozen.outcome).title
        return Now(about=about, state="sending", text=f"is decided ({what}) and on its way", at_ms=now_ms)
    if window.state == "retry":
        attempt = max(member.attempts for member in window.events) + window.failures + 1
        return Now(
            about=about,
            state="retry",
            text=f"its decision failed ({window.last_error}); attempt {attempt} of {MAX_ATTEMPTS} "
            + at(window.look_at_ms, now_ms),
            at_ms=window.look_at_ms,
        )
    if window.state == "media":
        ceiling = clock(local(window.deadline_ms + CEILING_MS))
        return Now(
            about=about,
            state="waits_for_media",
            text="waits for a photo, an audio or another file to be read; next look "
            f"{at(window.look_at_ms, now_ms)}; at {ceiling} it goes on without it",
            at_ms=window.look_at_ms,
        )
    if window.deadline_ms + GRACE_MS >= now_ms:
        closes = at(window.deadline_ms, now_ms)
        return Now(
            about=about,
            state="open_window",
            text=f"is in an open window of {messages} that closes {closes}",
            at_ms=window.deadline_ms,
        )
    late = span(now_ms - window.deadline_ms)
    if window.after_offset > live.written_below:
        waits = "the sink has yet to write what came of it the first time"
    elif live.unread:
        waits = f"the worker has {live.unread:,} records of partition {live.partition} to read first"
    else:
        waits = "does the worker run, and does it reach Postgres? (`rajada status`, `rajada doctor`)"
    return Now(
        about=about,
        state="overdue_window",
        text=f"is in a window that was due {late} ago: {waits}",
        at_ms=None,
    )


def job_now(job: JobRow, now_ms: int, outcome: str | None = None, paused: str | None = None) -> Now:
    """Where a job is, by its row.

    Args:
        job: the row.
        now_ms: Unix ms.
        outcome: that of its last transition, which says what it waits for.
        paused: that its organization, or everything, is (`paused_words`).
    """
    about = f"job {job.id}"
    tries = f"{job.attempts} of {job.max_attempts}"
    if job.status == "running":
        since = f" since {clock(job.locked_at.astimezone())}" if job.locked_at is not None else ""
        by = f" at {job.locked_by}" if job.locked_by else ""
        return Now(about=about, state="running", text=f"runs{since}{by}, attempt {tries}")
    if job.status != "pending":
        why = f": {job.last_error}" if job.last_error and job.status in ("failed", "dead") else ""
        ended = f" after {job.attempts} of {job.max_attempts} attempts" if job.status == "dead" else ""
        return Now(about=about, state=job.status, text=f"{STATES.get(job.status, job.status)}{ended}{why}")
    if job.run_after is None:
        held = (outcome or "").removeprefix("held:") if (outcome or "").startswith("held:") else ""
        for_what = f" ({reason(held).title})" if held else ""
        text = f"is held{for_what} until somebody releases it, or until what it waits for is there"
        return Now(about=about, state="held", text=text)
    run_after_ms = _ms(job.run_after)
    if job.attempts:
        why = f" ({job.last_error})" if job.last_error else ""
        text = f"failed{why}; retry {job.attempts + 1} of {job.max_attempts} {at(run_after_ms, now_ms)}"
        return Now(about=about, state="retry", text=text, at_ms=run_after_ms)
    if run_after_ms > now_ms:
        waits = (outcome or "").startswith("retry:")
        why = f" ({reason(outcome or '').title})" if waits else ""
        text = f"runs {at(run_after_ms, now_ms)}{why}"
        return Now(about=about, state="waiting", text=text, at_ms=run_after_ms)
    if paused:
        return Now(about=about, state="paused", text=f"waits: {paused}")
    return Now(about=about, state="ready", text="waits for its turn to run", at_ms=run_after_ms)


def paused_words(paused: Mapping[str | None, str], organization_id: str) -> str | None:
    """That jobs of an organization don't begin, since when, by whom, and how they will; None: they do.

    `paused`: as `Evidence.paused`.
    """
    for whose, order in (("everything", None), ("its organization", organization_id)):
        if order in paused:
            option = f" --organization {order}" if order else ""
            return f"{whose} is paused {paused[order]}; `rajada resume{option}` lets it go on"
    return None


def at(ms: int, now_ms: int) -> str:
    """`at 12:03:04.000, in 3.2 s`: a moment ahead; one that has passed says so."""
    when = local(ms)
    told = clock(when) if when.date() == local(now_ms).date() else f"{clock(when)} on {day(when)}"
    return f"at {told}, in {span(ms - now_ms)}" if ms > now_ms else f"at {told} (any moment now)"


def window_of(contact: Contact, event_id: str) -> Window | None:
    """The window that holds an event."""
    for window in contact.windows:
        members = [member.event_id for member in window.events]
        if window.frozen is not None:
            members += [member.event_id for member, _ in window.frozen.deduplicated]
        if event_id in members:
            return window
    return None


def _seen(contact: Contact, event_id: str) -> int | None:
    """The offset of an event's outcome, -1 while it has none; None: the contact has not seen it lately."""
    found = [offset for name, (_, offset) in contact.recent.items() if name.partition("#")[0] == event_id]
    return max(found) if found else None


def _sent(about: str, offset: int, live: Live) -> Now:
    if offset < 0:
        return Now(about=about, state="known", text="was read by the worker; what came of it is on its way")
    where = f"its outcome stands at offset {offset:,} of dispatch.outcomes [{live.partition}]"
    if offset >= live.written_below:
        return Now(about=about, state="sent", text=f"{where}; the sink has yet to write it (`rajada status`)")
    return Now(
        about=about,
        state="sent",
        text=f"{where}, which the sink has passed without changing the row: is it a dead letter of the sink?",
    )


def _missing(about: str, row: EventRow, swept: SweptRow | None, now_ms: int, reap_ms: int) -> Now:
    """Pending, not in the topic, unknown to the worker."""
    due_ms = _ms(row.created_at if row.status == "pending" else row.updated_at or row.created_at) + reap_ms
    if row.next_attempt_at is not None:
        due_ms = max(due_ms, _ms(row.next_attempt_at))
    if swept is not None:
        due_ms = max(due_ms, _ms(swept.next_sweep_at))
    return Now(
        about=about,
        state="unpublished",
        text="has not reached the worker: CDC is behind, or has lost it; the sweep publishes it again "
        + at(due_ms, now_ms),
        at_ms=due_ms,
    )


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
