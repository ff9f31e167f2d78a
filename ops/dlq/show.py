"""Dead letters for people and for programs; personal data is veiled unless somebody asks for it."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from rich.console import Group as Parts
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from db.closed_letters import Closed
from ops.dlq.groups import Group, Groups
from ops.moments import clock, day, local, span
from ops.reasons import reason
from schemas.dead import MOST_REPLAYS
from schemas.masking import masked
from streams.letters import Letter
from streams.veil import veiled, veiled_header, veiled_key

LONGEST = 2_000
"""Bytes of unreadable content that are shown."""
_GROUPS_SHOWN = 40


def groups_table(groups: Groups, now_ms: int, *, closed: bool) -> RenderableType:
    """The groups, most letters first."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in groups.by:
        table.add_column(name.upper(), overflow="fold")
    table.add_column("LETTERS", justify="right")
    if closed:
        table.add_column("CLOSED", justify="right")
    table.add_column("ORGS", justify="right")
    for title in ("OLDEST", "NEWEST", "EXAMPLE"):
        table.add_column(title, no_wrap=True)
    found = groups.sorted()
    for group in found[:_GROUPS_SHOWN]:
        table.add_row(*group.values, *_numbers(group, now_ms, closed))
    if len(found) > _GROUPS_SHOWN:
        rest = found[_GROUPS_SHOWN:]
        table.add_row(
            f"and {len(rest):,} more groups, {sum(one.letters for one in rest):,} letters; narrow them down"
        )
    return table


def _numbers(group: Group, now_ms: int, closed: bool) -> list[str]:
    return [
        f"{group.letters:,}",
        *([f"{group.closed:,}" if group.closed else ""] if closed else []),
        f"{len(group.organizations):,}" if group.organizations else "",
        f"{span(max(0, now_ms - group.oldest_ms))} ago",
        f"{span(max(0, now_ms - group.newest_ms))} ago",
        group.example,
    ]


def letters_table(letters: Sequence[Letter], closed: Mapping[str, Closed]) -> RenderableType:
    """One line a letter."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("PLACE", "DIED", "REASON", "KIND", "ABOUT", "REPLAYS", "STATE"):
        table.add_column(title, no_wrap=title in ("PLACE", "DIED"), overflow="fold")
    for letter in letters:
        what = closed.get(str(letter.place))
        table.add_row(
            str(letter.place),
            f"{local(letter.at_ms):%Y-%m-%d %H:%M:%S}",
            letter.reason,
            letter.kind,
            letter.about or "",
            str(letter.replays or ""),
            what.how if what is not None else "open",
        )
    return table


def letter_page(letter: Letter, closed: Closed | None, *, unmasked: bool) -> RenderableType:
    """All that is known of a letter: what it is, the way it went, what may be done."""
    why = reason(letter.reason)
    head = Table.grid(padding=(0, 2))
    for name, value in (
        ("reason", f"{letter.reason}: {why.title}" if why.title != letter.reason else letter.reason),
        ("", why.meaning),
        ("message", letter.message if unmasked else masked(letter.message)),
        ("kind", letter.kind),
        ("organization", letter.organization_id),
        ("event", letter.event_id),
        ("job", letter.job_id),
        ("key", key_of(letter, unmasked)),
    ):
        if value:
            head.add_row(Text(f"  {name}", "dim"), Text(value, overflow="fold"))
    parts: list[RenderableType] = [
        Text(f"Letter {letter.place}", "bold"),
        head,
        Text("The way it went", "bold"),
        *(Text(f"  {line}") for line in way(letter, closed)),
        Text("Headers", "bold"),
        *(Text(f"  {name}: {_shown(value)}") for name, value in headers_of_letter(letter, unmasked)),
        Text("Content", "bold"),
        Text(content_text(letter, unmasked), overflow="fold"),
    ]
    parts += [Text(f"→ {line}", "cyan") for line in advice(letter, closed, why.advice)]
    return Parts(*parts)


def way(letter: Letter, closed: Closed | None) -> list[str]:
    """Where it was, when it died, and what was done with it since, in order."""
    told, lines = letter.told, []
    if letter.origin:
        partition, offset = told.get("kafka_dlt-original-partition"), told.get("kafka_dlt-original-offset")
        where = f"{letter.origin} [{partition}] offset {offset}" if offset != "-1" else letter.origin
        lines.append(f"{_when(letter.origin_ms)}  came by {where}")
    first = told.get("first-failed-at", "")
    first_ms = int(first) if first.isdigit() and len(first) < 16 else None
    if first_ms is not None and letter.replays:
        lines.append(f"{_when(first_ms)}  died for the first time")
    if letter.replays:
        lines.append(
            f"{_when(letter.replay or None)}  was requeued, time {letter.replays} of {MOST_REPLAYS}, run "
            f"{letter.replay}"
        )
    tries = f", attempt {letter.attempt}" if letter.attempt is not None else ""
    lines.append(f"{_when(letter.at_ms)}  died in stage {letter.stage}{tries}: {letter.reason}")
    if closed is not None:
        run = f" by run {closed.replay}" if closed.replay else ""
        at_ms = closed.closed_at.timestamp() * 1000
        lines.append(f"{_when(at_ms)}  {closed.how}{run} ({closed.closed_by or 'nobody named'})")
    return lines


def advice(letter: Letter, closed: Closed | None, known: str) -> list[str]:
    """What may be done now."""
    lines = [known] if known else []
    if letter.about:
        lines.append(f"rajada why {letter.about}")
    if closed is None and letter.is_original:
        lines.append(f"rajada dlq requeue {letter.place}, or rajada dlq drop {letter.place} --because TEXT")
    return lines


def as_json(letter: Letter, closed: Closed | None, *, unmasked: bool) -> dict[str, object]:
    """A letter for programs; with `unmasked` its bytes too."""
    return {
        "place": str(letter.place),
        "at_ms": letter.at_ms,
        "reason": letter.reason,
        "stage": letter.stage,
        "message": letter.message if unmasked else masked(letter.message),
        "kind": letter.kind,
        "organization_id": letter.organization_id,
        "event_id": letter.event_id,
        "job_id": letter.job_id,
        "attempt": letter.attempt,
        "replay": letter.replay,
        "replays": letter.replays,
        "origin": {
            "topic": letter.origin,
            "partition": letter.told.get("kafka_dlt-original-partition"),
            "offset": letter.told.get("kafka_dlt-original-offset"),
            "timestamp_ms": letter.origin_ms,
        },
        "key": key_of(letter, unmasked),
        "headers": [{"name": name, "value": value} for name, value in headers_of_letter(letter, unmasked)],
        "content": _content(letter, unmasked),
        "state": closed.how if closed is not None else "open",
        "closed": msgspec.to_builtins(closed) if closed is not None else None,
        "way": way(letter, closed),
    }


def groups_as_json(groups: Groups) -> list[dict[str, object]]:
    """The groups for programs."""
    return [
        {
            **dict(zip(groups.by, group.values, strict=True)),
            "letters": group.letters,
            "closed": group.closed,
            "organizations": len(group.organizations),
            "oldest_ms": group.oldest_ms,
            "newest_ms": group.newest_ms,
            "example": group.example,
        }
        for group in groups.sorted()
    ]


def _when(at_ms: float | None) -> str:
    if at_ms is None:
        return " " * len("2026-07-24 (UTC-03:00) 12:00:00.000")
    at = local(at_ms)
    return f"{day(at)} {clock(at)}"


def key_of(letter: Letter, unmasked: bool) -> str | None:
    """Its key, veiled unless `unmasked`."""
    if not unmasked:
        return veiled_key(letter.key)
    return _readable(letter.key)


def headers_of_letter(letter: Letter, unmasked: bool) -> Iterable[tuple[str, str | None]]:
    """Its headers, veiled unless `unmasked`."""
    for name, value in letter.headers:
        yield name, _readable(value) if unmasked else veiled_header((name, value))


def _shown(value: str | None) -> str:
    return "null" if value is None else value


def _content(letter: Letter, unmasked: bool) -> object:
    """The decoded record; of unreadable bytes their number, or with `unmasked` the bytes."""
    record = letter.content.record
    if record is None:
        if letter.value is None:
            return None
        return _readable(letter.value) if unmasked else f"‹{len(letter.value):,} unreadable bytes›"
    plain = msgspec.to_builtins(record, builtin_types=(bytes,))
    if not unmasked:
        return veiled(plain)
    return msgspec.json.decode(msgspec.json.encode(plain))  # bytes as base64


def content_text(letter: Letter, unmasked: bool) -> str:
    """The decoded content as text, for people."""
    content = _content(letter, unmasked)
    if isinstance(content, str):
        return f"  {content[:LONGEST]}" + (" …" if len(content) > LONGEST else "")
    if content is None:
        return "  null"
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode()


def _readable(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"base64 {base64.b64encode(value).decode()}"
