"""What mkdocs asks while it builds the site (mkdocs.yml, `hooks`): pages as its Markdown needs them.

Pages are written as the repository's host shows them. There a link may lead to a file of the code; the site
has only docs/, so such a link becomes the file's path, and a link to nothing ends the build. There a list or
a table may follow a paragraph at once, and what belongs to a list's item stands under its text; mkdocs wants
a blank line and four spaces.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Protocol

from settings import RajadaError

_ROOT: Final = Path(__file__).parents[1]
_DOCS: Final = _ROOT / "docs"
_LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
_ITEM: Final = re.compile(r"(?:[-*]|\d+\.) +(?=\S)")
_FENCE: Final = re.compile(r"^\s*(```|~~~)")


class LeadsNowhere(RajadaError):
    """A page has a link to a file that there is not; the message names both."""


class _File(Protocol):
    @property
    def src_uri(self) -> str: ...


class _Page(Protocol):
    @property
    def file(self) -> _File: ...


def on_page_markdown(markdown: str, /, *, page: _Page, config: object, files: object) -> str:
    """A page's text with its links as the site can follow them; called by mkdocs."""
    return set_apart(linked(markdown, page.file.src_uri))


def linked(markdown: str, page: str) -> str:
    """The same without mkdocs. `page` is its path in docs/; raises LeadsNowhere."""
    lines = []
    inside = False
    for line in markdown.splitlines(keepends=True):
        inside ^= bool(_FENCE.match(line))
        lines.append(line if inside else _LINK.sub(lambda found: _followed(found, page), line))
    return "".join(lines)


def set_apart(markdown: str) -> str:
    """A text with blank lines before its lists and tables, and lists' contents four spaces deep."""
    lines: list[str] = []
    inside = loose = False
    width = 0
    for line in markdown.splitlines():
        before = lines[-1] if lines else ""
        if not inside:
            item = _ITEM.match(line)
            if item is None and line and not line.startswith(" " * (width or 1)):
                width = 0
            if before and _begins_anew(line, before, in_list=width > 0 and not loose):
                lines.append("")
            loose = item is None and width > 0 and (loose or not line)
            width = len(item[0]) if item is not None else width
        inside ^= bool(_FENCE.match(line))
        deep = width and line.startswith(" " * width)
        lines.append(" " * 4 + line[width:] if deep else line)
    return "\n".join(lines) + "\n"


def _begins_anew(line: str, before: str, *, in_list: bool) -> bool:
    """Whether a list, its next item, or a table begins in a line, under a paragraph's last line."""
    if line.startswith("|"):
        return not before.startswith(("|", "#"))
    return bool(_ITEM.match(line)) and not in_list and not before.startswith("#")


def _followed(found: re.Match[str], page: str) -> str:
    text, to, anchor = found[1], found[2], found[3] or ""
    there = (_DOCS / page).parent / to
    if not there.exists():
        raise LeadsNowhere(f"docs/{page} has a link to {to}, which is not there. Correct it.")
    there = there.resolve()
    if not there.is_relative_to(_DOCS):
        path = f"`{there.relative_to(_ROOT)}`"
        return path if path.strip("`") == text.strip("`") else f"{text} ({path})"
    if there.is_dir():
        return f"[{text}]({to.rstrip('/')}/README.md{anchor})"
    return found[0]
