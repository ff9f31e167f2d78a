"""The catalogue of alerts, read from `schemas/alerts.toml`: kinds, titles and first words in each language.

`schemas.alert_texts` makes alerts of it; `python -m schemas.alert_catalogue` prints docs/alerts.md's table.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from settings import Language


class Text(msgspec.Struct, frozen=True):
    """One family in one language."""

    title: str
    body: str
    """What somebody did not get, and what to do first."""
    perhaps: str = ""
    """The same, where it is not certain."""


class Family(msgspec.Struct, frozen=True):
    """Alerts about one sort of trouble: they share an inbox item while it is open."""

    kind: str
    texts: Mapping[Language, Text]
    opens: str = ""
    """When, in English, for the page of alerts."""
    closes: str = ""
    """When it resolves itself."""


class _Catalogue(msgspec.Struct):
    families: dict[str, Family]
    words: dict[Language, dict[str, str]]


def _read() -> _Catalogue:
    text = (Path(__file__).parent / "alerts.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), _Catalogue)


_CATALOGUE = _read()
FAMILIES: Final[Mapping[str, Family]] = _CATALOGUE.families
"""By family."""
WORDS: Final[Mapping[Language, Mapping[str, str]]] = _CATALOGUE.words
"""The pieces of a technical detail; `{}` is the value."""


def as_markdown() -> str:
    """The catalogue as the table of docs/alerts.md."""
    lines = ["| kind | title (pt-BR, en) | opens when | resolves itself when |", "| --- | --- | --- | --- |"]
    for family in FAMILIES.values():
        titles = "<br>".join(text.title for text in family.texts.values())
        lines.append(f"| `{family.kind}` | {titles} | {family.opens} | {family.closes} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(as_markdown(), end="")
