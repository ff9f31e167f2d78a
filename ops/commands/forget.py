"""`rajada forget`: erase what is known of a contact, and tell what remains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from ops.commands.selecting import DryRun, Json, Yes
from ops.numbers import several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ops.forget import Forgetter, Forgotten, Survey
    from ops.remains import Remains
    from settings import Settings


def forget(
    contact: Annotated[
        str | None,
        typer.Argument(metavar="[CONTACT]", help="The contact's id; without: who has the phone."),
    ] = None,
    organization: Annotated[
        str | None, typer.Option("--organization", metavar="ID", help="Whose it is, if its row is gone.")
    ] = None,
    phone: Annotated[
        str | None, typer.Option("--phone", help="+5511…: its group links too; default: its row's.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for the worker.")] = 30.0,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Erase a contact's content from state, trace and dead letters; tell what remains until when.

    The CRM's own tables are the CRM's to erase; do that first. The same command goes on after an
    interruption. Exit code 11 if no worker has heard the order in time, 12 if nobody knows the contact, 5
    while another command is at the dead letters.
    """
    from ops.dlq.desk import Desk
    from ops.endpoints import bootstrap_of, database_of
    from ops.forget import LETTER_TOPICS, Forgetter, Forgotten
    from settings import get_settings
    from streams.erasing import LEAST_DIGITS

    contact_id = _uuid(contact, "CONTACT") if contact else None
    organization_id = _uuid(organization, "--organization") if organization else None
    if phone is not None and sum(sign.isdigit() for sign in phone) < LEAST_DIGITS:
        raise typer.BadParameter(f"{phone!r} is no phone; write it as +5511…", param_hint="--phone")
    if contact_id is None and not (phone and organization_id):
        raise typer.BadParameter("name a contact, or a phone: --phone with --organization")
    if json and not (yes or dry_run):
        raise typer.BadParameter("give --yes or --dry-run with --json")
    settings = get_settings()
    work = Forgetter(settings, bootstrap_of(settings), database_of(settings), contact_id)
    with Desk(settings, LETTER_TOPICS[0], rows_needed=True) as desk:
        survey = work.survey(desk, organization_id, phone)
    for topic in LETTER_TOPICS:
        with Desk(settings, topic, rows_needed=True) as desk:
            work.find_letters(desk, survey)
    done = None
    if not dry_run:
        if not json:
            _show(survey)
        if not yes:
            typer.confirm("Forget it? That can't be undone", abort=True)
        done = _forgotten(work, survey, settings, timeout, json)
    elif not json:
        _show(survey)
    left = work.remains(survey, done or Forgotten())
    if json:
        typer.echo(_as_json(survey, done, left))
    else:
        _tell(survey, done, left)
    if done is not None and done.jobs_left is None:
        raise typer.Exit(_NOT_YET)


def _forgotten(work: Forgetter, survey: Survey, settings: Settings, timeout: float, json: bool) -> Forgotten:
    from ops.bar import counting
    from ops.dlq.desk import Desk
    from ops.forget import LETTER_TOPICS, Forgotten

    done = Forgotten()
    for topic in LETTER_TOPICS:
        with Desk(settings, topic, rows_needed=True) as desk:
            desk.lock()
            if topic == LETTER_TOPICS[0]:
                done.jobs_left = work.wait(desk, work.order(desk, survey), timeout)
            with counting(survey.count, quiet=json) as watch:
                work.replace_letters(desk, survey, done, watch)
            work.delete_letters(desk, survey, done)
    with Desk(settings, LETTER_TOPICS[0], rows_needed=True) as desk:
        done.traces = work.erase_trace(desk, survey)
    return done


def _show(survey: Survey) -> None:
    known = survey.known
    typer.echo(f"{_who(survey).capitalize()} of organization {', '.join(one for one, _ in survey.places)}:")
    typer.echo(
        f"  {several(known.traces, 'entry', 'entries')} of the trace, about {several(known.events, 'event')}"
    )
    letters = [place for places in survey.letters.values() for place in places]
    shown = f" ({', '.join(letters[:5])}{' …' if len(letters) > 5 else ''})" if letters else ""
    typer.echo(f"  {several(len(letters), 'dead letter')}{shown}, to be replaced by ones without content")
    if letters:
        typer.echo("  letters before them in the log that were requeued or dropped are deleted with them")
    if known.open_jobs:
        typer.echo(
            f"  {several(known.open_jobs, 'job')} that still run or wait: they keep their content until then"
        )
    if known.open_links:
        links = several(known.open_links, "group link that is", "group links that are")
        typer.echo(
            f"  {links} still to be sent: close them first (`rajada group-links close`), or they are sent"
        )


def _tell(survey: Survey, done: Forgotten | None, left: Sequence[Remains]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if done is not None:
        console.print(
            f"Erased {several(done.traces, 'entry', 'entries')} of the trace; replaced "
            f"{several(done.letters, 'dead letter')}.",
            markup=False,
        )
        for where, offset in done.deleted_up_to.items():
            console.print(f"{where} begins at offset {offset} now.", markup=False)
        if done.jobs_left is None:
            console.print(
                f"No worker has told that it has forgotten {_who(survey)}; the order waits for it "
                "(`rajada status`). What it holds are ids, for 24 hours at most.",
                markup=False, style="yellow", soft_wrap=True,
            )  # fmt: skip
        elif done.jobs_left:
            told = several(done.jobs_left, "job has", "jobs have")
            console.print(f"{told} not ended and keep their content until then; run this again afterwards.")
    _show_remains(console, left)


def _show_remains(console: Console, left: Sequence[Remains]) -> None:
    from rich.table import Table

    from ops.moments import local

    console.print("What remains:")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("WHERE", "WHAT", "UNTIL AT THE LATEST"):
        table.add_column(title, overflow="fold")
    for one in left:
        until = f"{local(one.until_ms):%Y-%m-%d %H:%M}" if one.until_ms is not None else ""
        table.add_row(one.where, one.what, until)
    console.print(table)


def _as_json(survey: Survey, done: Forgotten | None, left: Sequence[Remains]) -> str:
    import msgspec

    told = {
        "contact_id": survey.contact_id,
        "organizations": [organization for organization, _ in survey.places],
        "found": {
            "trace": survey.known.traces,
            "letters": survey.count,
            "open_jobs": survey.known.open_jobs,
            "group_links": survey.known.links,
            "open_group_links": survey.known.open_links,
        },
        "erased": None if done is None else {"trace": done.traces, "letters": done.letters},
        "deleted_up_to": done.deleted_up_to if done is not None else {},
        "jobs_left": done.jobs_left if done is not None else None,
        "remains": left,
    }
    return msgspec.json.encode(told).decode()


def _who(survey: Survey) -> str:
    """Who is meant; of a phone no more than its end."""
    if survey.contact_id is not None:
        return f"contact {survey.contact_id}"
    return f"phone …{(survey.places[0][1] or '')[-4:]}"


def _uuid(text: str, where: str) -> str:
    try:
        return str(UUID(text.strip()))
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a UUID", param_hint=where) from error


_NOT_YET = 11
