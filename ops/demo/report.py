"""The table at the end."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ops.demo.accounts import Accounts
from ops.demo.watch import READ_EVERY_S
from ops.demo.words import ENDS, MEANINGS, counted, milliseconds, told_state


def report(accounts: Accounts) -> RenderableType:
    """All messages, and what became of them."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim")
    beside = [
        f"{counted(accounts.resent, 'record')} repeated" if accounts.resent else "",
        f"{counted(accounts.noise, 'record')} of noise" if accounts.noise else "",
    ]
    told = ", ".join(part for part in beside if part)
    table.add_row(Text("messages in", "bold"), str(accounts.messages), f"and {told}" if told else "")
    table.add_row(
        Text("jobs out", "bold green"), str(accounts.jobs), f"for {counted(accounts.in_jobs, 'message')}"
    )
    for end, meaning in ENDS.items():
        if count := accounts.ends.get(end, 0):
            retried = f", {accounts.retried} of them not at the first attempt" if accounts.retried else ""
            said = f"{meaning}{retried}" if end == "answered" else meaning
            style = (
                "green" if end in ("answered", "merged", "covered") else "yellow" if end != "dead" else "red"
            )
            table.add_row(Text(f"  {end}", style), str(count), said)
    table.add_row(
        Text("answers", "bold green"),
        str(accounts.answers),
        f"by the engine's own count of idempotency keys, for {counted(accounts.answered, 'message')}",
    )
    stopped = sum(stop.messages for stop in accounts.stops)
    table.add_row(Text("stopped", "bold yellow"), str(stopped), "each for a reason:" if stopped else "")
    for stop in accounts.stops:
        table.add_row(Text(f"  {stop.reason}", "yellow"), str(stop.messages), MEANINGS.get(stop.reason, ""))
    buried = sum(accounts.dead_letters.values())
    table.add_row(
        Text("dead letters", "bold red"), str(buried), "with their bytes, in dispatch.dead:" if buried else ""
    )
    for reason, count in accounts.dead_letters.items():
        table.add_row(Text(f"  {reason}", "red"), str(count), MEANINGS.get(reason, ""))
    table.add_row(
        Text("alerts", "bold"), str(accounts.alerts), "in the inbox of the clinic" if accounts.alerts else ""
    )
    _add_beside(table, accounts)
    if accounts.on_their_way or accounts.still_running:
        jobs = f"and {counted(len(accounts.still_running), 'job')}" if accounts.still_running else ""
        table.add_row(Text("on their way", "bold yellow"), str(len(accounts.on_their_way)), jobs)
    lost = len(accounts.lost) + accounts.noise_lost
    table.add_row(
        Text("lost", "bold"), _must_be_none(lost), "without an end that holds together" if lost else ""
    )
    table.add_row(
        Text("answered twice", "bold"),
        _must_be_none(len(accounts.doubled) + len(accounts.misanswered)),
        _why_wrong(accounts),
    )
    if accounts.unended:
        table.add_row(
            Text("not ended", "bold"), _must_be_none(len(accounts.unended)), "jobs that wait, run or are held"
        )
    latency = accounts.latency
    table.add_row(
        Text("commit to job row", "bold"),
        "",
        Text(
            f"p50 {milliseconds(latency.p50_ms)}, p99 {milliseconds(latency.p99_ms)} after the window's end "
            f"({counted(latency.count, 'job')}, rows read every {READ_EVERY_S * 1000:.0f} ms)"
        ),
    )
    if accounts.complete:
        return Group(Text(), table)
    return Group(
        Text(),
        table,
        Text("Stopped before its end: what was on its way is not lost, it has no end yet.", "yellow"),
    )


def _add_beside(table: Table, accounts: Accounts) -> None:
    """Group links and stuck instances, a line each."""
    if (links := accounts.links) is not None:
        said = f"{links.sent} sent, {links.failed} failed; the provider took {links.taken}"
        table.add_row(Text("group links", "bold"), str(links.enrolled), said)
    if (stuck := accounts.instances) is not None:
        states = ", ".join(f"{count} {told_state(state)}" for state, count in sorted(stuck.states.items()))
        said = f"{states}; 1 of {stuck.open + stuck.resolved} notifications resolved itself"
        if stuck.resolved != 1:
            said = f"{states}; {stuck.open} notifications open, {stuck.resolved} resolved"
        table.add_row(Text("stuck instances", "bold"), str(stuck.stuck), said)
    if accounts.amiss:
        table.add_row(Text("not as it must be", "bold red"), "", ", ".join(accounts.amiss))


def _why_wrong(accounts: Accounts) -> str:
    parts = [
        f"{counted(len(accounts.doubled), 'message')} in more than one job" if accounts.doubled else "",
        f"{counted(len(accounts.misanswered), 'job')} with another number of answers than its end says"
        if accounts.misanswered
        else "",
    ]
    return ", ".join(part for part in parts if part)


def _must_be_none(count: int) -> Text:
    return Text(str(count), "bold green" if count == 0 else "bold red")
