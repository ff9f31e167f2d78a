"""Every setting as people look it up: variable, type, unit, default, meaning; read from `settings.py`.

`python -m ops.settings_page` prints docs/settings.md; a test holds the page to it. What a setting means
stands under its field, a section's name in the comment above it, and nowhere else.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Final, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from ops.given import shown
from settings import Settings, variable_of

_UNITS: Final = (
    ("per_s", "a second"), ("ms", "ms"), ("s", "s"), ("days", "days"), ("mb", "MiB"), ("kb", "KiB"),
)  # fmt: skip
"""Last part of a field's name → its unit."""
_SECTION: Final = re.compile(r"\s*# -- (.+)")
_FIELD: Final = re.compile(r"`([a-z_]+)`")
_PLACE: Final = re.compile(r"\b(docs|spec)/([a-z-]+)\.md")
_NUMBERS: Final[Mapping[type, str]] = {int: "whole number", float: "number"}


@dataclass(frozen=True, slots=True)
class Told:
    """One setting."""

    field: str
    """Its name in `Settings`."""
    variable: str
    """Its name in the environment."""
    section: str
    type: str
    """What may be given, with its bounds."""
    unit: str
    """Of a number; empty where there is none."""
    default: str
    """As it would be written; `unset` where there is none."""
    meaning: str
    secret: bool
    """Whether its value is never shown."""


@lru_cache(maxsize=1)
def settings_told() -> tuple[Told, ...]:
    """All of them in the order of `settings.py`; KeyError for one without a meaning."""
    meanings, sections = _read(Path(inspect.getfile(Settings)).read_text())
    return tuple(
        Told(
            field=name,
            variable=variable_of(name),
            section=sections[name],
            type=_type(info),
            unit=_unit(name, info),
            default=_default(info.get_default(call_default_factory=True)),
            meaning=meanings[name],
            secret=SecretStr in _parts(info.annotation),
        )
        for name, info in Settings.model_fields.items()
    )


def _read(source: str) -> tuple[dict[str, str], dict[str, str]]:
    """Field → meaning, and field → section, out of the text of `settings.py`."""
    lines = source.splitlines()
    (body,) = (
        node.body
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == "Settings"
    )
    meanings: dict[str, str] = {}
    sections: dict[str, str] = {}
    for node, after in pairwise(body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        above = [found.group(1) for line in lines[: node.lineno] if (found := _SECTION.match(line))]
        sections[node.target.id] = above[-1] if above else ""
        if (
            isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            meanings[node.target.id] = _FIELD.sub(_as_variable, " ".join(after.value.value.split()))
    return meanings, sections


def _as_variable(found: re.Match[str]) -> str:
    """A field that a text names, by the name that its reader would set."""
    return f"`{variable_of(found[1])}`" if found[1] in Settings.model_fields else found[0]


def _parts(annotation: object) -> tuple[object, ...]:
    """The types of a union, without None; of anything else itself."""
    if get_origin(annotation) is Annotated:
        return _parts(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return tuple(inner for part in get_args(annotation) if part is not NoneType for inner in _parts(part))
    return (annotation,)


def _type(info: FieldInfo) -> str:
    (part,) = _parts(info.annotation)
    bounds = ", ".join(_bounds(info))
    if get_origin(part) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(part))
    if part is bool:
        return "`true` or `false`"
    if isinstance(part, type) and part in _NUMBERS:
        return f"{_NUMBERS[part]}{', ' if bounds else ''}{bounds}"
    if isinstance(part, type) and issubclass(part, Path):
        return "path"
    if get_origin(part) is dict:
        return "JSON object"
    if part is SecretStr:
        return "secret"
    return f"text{' like ' if bounds else ''}{bounds}"


def _bounds(info: FieldInfo) -> Iterator[str]:
    for rule in info.metadata:
        if isinstance(rule, Ge):
            yield f"≥ {_number(rule.ge)}"
        elif isinstance(rule, Gt):
            yield f"> {_number(rule.gt)}"
        elif isinstance(rule, Le):
            yield f"≤ {_number(rule.le)}"
        elif isinstance(rule, Lt):
            yield f"< {_number(rule.lt)}"
        elif isinstance(pattern := getattr(rule, "pattern", None), str):
            yield f"`{pattern}`"


def _number(value: object) -> str:
    return (
        f"{value:,g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    )


def _unit(name: str, info: FieldInfo) -> str:
    if not {int, float} & set(_parts(info.annotation)):
        return ""
    return next((unit for suffix, unit in _UNITS if name.endswith(f"_{suffix}")), "")


def _default(value: object) -> str:
    match value:
        case None:
            return "unset"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}" if value < 1e6 else f"{value:.0f}"
        case dict():
            return json.dumps(value)
        case _:
            return str(value)


def value_of(one: Told, settings: Settings) -> str:
    """Its value as it would be written; of a secret only whether it is set."""
    value = getattr(settings, one.field)
    if one.secret:
        return "unset" if value is None else "set (secret)"
    if one.field == "database_url" and value is not None:
        return shown(str(value))
    return _default(value)


def as_markdown() -> str:
    """The page."""
    lines = [_HEAD]
    section = ""
    for one in settings_told():
        if one.section != section:
            section = one.section
            title, more = _headed(section)
            lines += ["", f"## {title}", "", *([f"More: {more}.", ""] if more else [])]
            lines.append("| variable | type | unit | default | meaning |")
            lines.append("| --- | --- | --- | --- | --- |")
        default = f"`{one.default}`" if one.default not in ("unset", "") else one.default or "empty"
        cells = (f"`{one.variable}`", one.type, one.unit, default, _linked(one.meaning))
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*lines, "", _FOOT])


def _headed(section: str) -> tuple[str, str]:
    """A section's title, and links to the pages that it names."""
    pages = [_linked(found[0]) for found in _PLACE.finditer(section)]
    title = re.split(r" \(|;|, \"", section)[0]
    return title[0].upper() + title[1:], ", ".join(pages)


def _linked(text: str) -> str:
    """A text whose pages of ours can be followed from docs/."""
    return _PLACE.sub(
        lambda found: f"[{found[2]}]({'spec/' if found[1] == 'spec' else ''}{found[2]}.md)", text
    )


_HEAD: Final = """\
# Settings

Every setting is an environment variable. All have a default that suits the embedded stack, so nothing has to
be set. A `.env` file in the current folder is read, too; the environment wins over it. Processes read their
settings once, when they start: after a change, start them anew. A value that can't be used is refused by
name, and the process doesn't start.

`rajada settings` shows what is set here and now, and `rajada settings WORD` explains the settings with that
word in their name. This page is made from `settings.py`: `python -m ops.settings_page > docs/settings.md`."""

_FOOT: Final = """\
## Not in `settings.py`

| variable | meaning |
| --- | --- |
| `RAJADA_DEBUG` | `1`: an error of the command line shows its traceback |
| `OTEL_…` | where traces go, with OpenTelemetry's own names; only with the `tracing` extra |
| `JGO_CACHE_DIR` | where the embedded Kafka's jars are kept |
| `SSL_CERT_FILE` | whose certificates their download trusts |"""


if __name__ == "__main__":
    print(as_markdown())
