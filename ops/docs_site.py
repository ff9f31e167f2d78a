"""What mkdocs asks while it builds the site: links that lead out of docs/ (mkdocs.yml, `hooks`).

On a page of the repository a link may lead to a file of the code; the site has only docs/. There such a link
becomes the file's path. A link to nothing ends the build.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Protocol

from settings import RajadaError

_ROOT: Final = Path(__file__).parents[1]
_DOCS: Final = _ROOT / "docs"
_LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
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
    return linked(markdown, page.file.src_uri)


def linked(markdown: str, page: str) -> str:
    """The same without mkdocs. `page` is its path in docs/; raises LeadsNowhere."""
    lines = []
    inside = False
    for line in markdown.splitlines(keepends=True):
        inside ^= bool(_FENCE.match(line))
        lines.append(line if inside else _LINK.sub(lambda found: _followed(found, page), line))
    return "".join(lines)


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
