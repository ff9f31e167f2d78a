"""What can be asked of the service."""

from __future__ import annotations

from typing import Annotated, Any, Final
from uuid import UUID, uuid4

import psycopg
from fastapi import APIRouter, Depends, Request
from fastapi.security import HTTPBearer

from db.group_links import enqueue_group_link
from db.queries import load
from sinks.group_link_rows import QueueRow
from streams.handlers.group_link_template import template
from streams.handlers.whatsapp_replies import NotSent
from streams.whatsapp_numbers import NumberSealed, NumbersUnknown
from web.bodies import Accepted, GroupLinkBody, JobView, Reminded, ReminderBody, Well
from web.callers import Caller
from web.errors import DATABASE_AWAY, Problem, Refused
from web.parts import Parts

_bearer = HTTPBearer(auto_error=False, description="A token of `rajada tokens add`.")


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": Problem} for status in statuses}


_ALL: Final = (401, 408, 413, 429, 500, 503)
asked = APIRouter(dependencies=[Depends(_bearer)], responses=_errors(*_ALL))
health = APIRouter(tags=["health"])


# async, though they wait for nothing: what isn't is called in a thread, twice a request
async def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


async def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


PartsOf = Annotated[Parts, Depends(_parts)]
CallerOf = Annotated[Caller, Depends(_caller)]


def _same(caller: Caller, organization_id: UUID) -> None:
    if caller.organization_id != organization_id:
        raise Refused(
            403,
            "other_organization",
            "The token is another organization's.",
            [("organizationId", "is not the organization of the token")],
        )


@asked.post("/", status_code=202, responses=_errors(403, 422), summary="Send a group link, later and surely")
async def enqueue(body: GroupLinkBody, caller: CallerOf, parts: PartsOf) -> Accepted:
    """Put the template into the queue; the same enrolment again answers the same job and changes nothing."""
    _same(caller, body.organization_id)
    try:
        async with parts.pool.connection() as connection:
            done = await enqueue_group_link(connection, body.request())
    except psycopg.errors.ForeignKeyViolation:
        wrong = [("organizationId", "there is no such organization")]
        raise Refused(422, "invalid", "The organization is not there any more.", wrong) from None
    if done.created:
        parts.counts.enqueued += 1
    else:
        parts.counts.known += 1
    return Accepted(job_id=done.job_id, created=done.created, available_at=done.available_at)


@asked.post(
    "/sendreminder", responses=_errors(403, 404, 409, 422, 502, 504), summary="Send a template at once"
)
async def send_reminder(body: ReminderBody, caller: CallerOf, parts: PartsOf) -> Reminded:
    """Send the template now and answer with the provider's message id; the queue is not touched.

    With `settleJob` the enrolment's job ends as sent with this message, once that is sent. 504
    `unknown_outcome`: it may have been sent. Asking again sends again.
    """
    _same(caller, body.organization_id)
    message = template(
        body.phone, body.template_name, body.template_language, body.student_name, body.group_link
    )
    assert message is not None, "the contract leaves no part empty"
    try:
        number = await parts.numbers.of(str(body.organization_id))
    except NumbersUnknown:
        raise DATABASE_AWAY from None
    except NumberSealed as error:
        raise Refused(409, "no_credentials", str(error)) from None
    if number is None:
        raise Refused(
            409,
            "no_credentials",
            "The organization has no WhatsApp number to send with: `rajada whatsapp set`.",
        )
    row = await _to_be_settled(body, parts) if body.settle_job else None
    sent = await parts.whatsapp.send(number, message, f"reminder:{uuid4()}")
    if isinstance(sent, NotSent):
        raise _not_sent(sent)
    parts.counts.reminders += 1
    message_id = sent.provider_message_id
    settled = None if row is None else await parts.orders.settle(row, message_id, caller.token_id)
    return Reminded(provider_message_id=message_id, job_settled=settled)


async def _to_be_settled(body: ReminderBody, parts: Parts) -> QueueRow:
    """The row of the enrolment whose job a reminder shall end; whatever stands against it is told before
    anything is sent."""
    values = {"organization_id": body.organization_id, "enrolment_id": body.enrolment_id}
    async with parts.pool.connection() as connection:
        found = await (await connection.execute(load("group_link_row"), values)).fetchone()
    if found is None:
        raise Refused(404, "no_such_job", "The enrolment has no job to settle; nothing was sent.")
    status, row = found[0], QueueRow(*found[1:])
    if row.phone != body.phone:
        wrong = [("phone", "is not the phone of the enrolment's job")]
        raise Refused(422, "invalid", "The job to settle goes to another phone; nothing was sent.", wrong)
    if status == "sent":
        raise Refused(409, "job_is_sent", "The job is sent already; ask without settleJob to send again.")
    if status == "processing":
        raise Refused(
            409, "job_is_being_sent", "The job is just being sent; look at it in a moment. Nothing was sent.",
            headers={"Retry-After": "5"},
        )  # fmt: skip
    if not await parts.orders.can_be_given():
        raise Refused(
            503, "kafka_away", "Jobs can't be settled now, since Kafka can't be reached. Nothing was sent.",
            headers={"Retry-After": "5"},
        )  # fmt: skip
    return row


def _not_sent(sent: NotSent) -> Refused:
    code, _, said = sent.reason.partition(": ")
    match sent.verdict:
        case "unknown":
            return Refused(504, code, f"It may have been sent, or not: {said}.")
        case "rate":
            assert sent.pace is not None, "who asks for less has a pace"
            wait_s = max(sent.pace.wait_ms(0), sent.advice_ms or 0) // 1_000
            return Refused(429, code, f"Not sent: {said}", headers={"Retry-After": str(wait_s)})
        case "soon":
            return Refused(502, code, f"Not sent; ask again: {said}", headers={"Retry-After": "10"})
        case "hold" | "never":
            return Refused(502, code, f"Not sent, and asking again would not help: {said}")


@asked.get("/jobs/{id}", responses=_errors(404, 422), summary="What became of a group link")
async def job(id: UUID, caller: CallerOf, parts: PartsOf) -> JobView:
    """The queue's row of a job of the token's organization."""
    async with parts.pool.connection() as connection:
        values = {"id": id, "organization_id": caller.organization_id}
        row = await (await connection.execute(load("group_link_show"), values)).fetchone()
    if row is None:
        raise Refused(404, "no_such_job", "The organization has no such job.")
    (
        job_id, _, enrolment_id, flow, _, _, _, status, held, attempts, max_attempts, available_at,
        provider_message_id, last_error, created_at, updated_at, _,
    ) = row  # fmt: skip
    return JobView(
        job_id=job_id,
        enrolment_id=enrolment_id,
        flow=flow,
        status="held" if held and status == "pending" else status,
        attempts=attempts,
        max_attempts=max_attempts,
        available_at=available_at,
        provider_message_id=provider_message_id,
        last_error=last_error,
        created_at=created_at,
        updated_at=updated_at,
    )


@health.get("/livez", summary="Does the process live?")
async def livez() -> Well:
    """Always, if it answers."""
    return Well()


@health.get("/readyz", responses=_errors(503), summary="Can it do its work now?")
async def readyz(parts: PartsOf) -> Well:
    """Whether Postgres is there and has our tables, as it was a moment ago."""
    if parts.waits_for is not None:
        raise Refused(503, "not_ready", parts.waits_for, headers={"Retry-After": "2"})
    return Well()
