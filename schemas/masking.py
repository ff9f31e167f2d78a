"""Error texts without personal data: first line, 300 characters, numbers, e-mails and secrets masked.

Alerts, log lines and `last_error` carry only what went through here (spec/dispatch.md, where we differ).
Pure.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 300

_SECRET = re.compile(
    r"(?i)\b(password|passwd|pwd|secret|token|api[_-]?key|authorization|bearer)\b(\s*[=:]\s*|\s+)(bearer\s+)?[^\s,;)]+"
)
_URL_LOGIN = re.compile(r"(?<=://)[^/\s@]+@")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_UUID = re.compile(r"(?i)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_PHONE = re.compile(r"(?<![\w-])\+?\(?\d(?:[\s().-]{0,2}\d){7,}(?![\w-])")


def masked(text: str, longest: int = LONGEST) -> str:
    """The first line of `text`, at most `longest` characters; ids stay readable, people and secrets don't."""
    line = next((line for line in text.splitlines() if line.strip()), "").strip()[: longest * 10]
    line = _SECRET.sub(r"\1\2***", line)
    line = _URL_LOGIN.sub("***@", line)
    line = _EMAIL.sub("***@***", line)
    pieces, end = [], 0
    for found in _UUID.finditer(line):
        pieces += [_PHONE.sub("***", line[end : found.start()]), found.group()]
        end = found.end()
    pieces.append(_PHONE.sub("***", line[end:]))
    return "".join(pieces)[:longest]
