"""JSON that is nested too deep to be decoded: its top level, read without recursion (pure).

A payload may have further keys, and Postgres stores them nested thousands deep; decoders give up at about a
thousand. What we need stands at the top, so nobody's message is lost for what somebody stored beside it.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

DEEPEST: Final = 20_000
"""Levels; Postgres with its default stack stores fewer."""

_STRING: Final = r'("(?:[^"\\\x00-\x1f]|\\.)*")'
_AT_TOP: Final = re.compile(rf'\s*(?:{_STRING}|([{{\[])|([}}\]])|([,:])|([^\s{{}}\[\],:"]+))')
_INSIDE: Final = re.compile(rf'[^"{{}}\[\]]*(?:{_STRING}|([{{\[])|([}}\]]))')
_PAIRS: Final = {"}": "{", "]": "["}


def top_level(text: str) -> dict[str, str] | None:
    """Each member of a JSON object, by its name, as the text of its value.

    None when brackets don't match, something stands around the object, or it is no object. That the values
    are JSON in every detail is not checked: whoever decodes one finds out.
    """
    text = text.strip()
    members: dict[str, str] = {}
    brackets: list[str] = []
    name, start, at = "", 0, 0
    while at < len(text):
        inside = len(brackets) > 1
        found = (_INSIDE if inside else _AT_TOP).match(text, at)
        if found is None or (at and not brackets) or len(brackets) > DEEPEST:
            return None
        string, opens, closes, *others = found.groups()
        token_at, at = found.start(found.lastindex or 0), found.end()
        if closes:
            if not brackets or brackets.pop() != _PAIRS[closes]:
                return None
            if not brackets and name:
                members[_decoded(name)] = text[start:token_at].strip()
        elif opens:
            if not brackets and opens != "{":
                return None
            brackets.append(opens)
        elif not brackets:
            return None
        elif inside:
            continue
        elif others[0] == ":":
            start = at
        elif others[0] == "," and name:
            members[_decoded(name)], name = text[start:token_at].strip(), ""
        elif string and not name:
            name = string
    return members if text and not brackets else None


def _decoded(name: str) -> str:
    try:
        return msgspec.json.decode(name, type=str)
    except (msgspec.DecodeError, UnicodeError):
        return name
