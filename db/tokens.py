"""Bearer tokens of the HTTP API: made, found and compared. Pure: statements are in `db/queries/tokens_*.sql`.

A token reads `rajada_<id>_<secret>`. Its id is no secret: a row is found by it, and told to people. Of the
secret, 256 random bits, only the SHA-256 is kept: nobody can guess it, so nothing slower is needed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Final

PREFIX: Final = "rajada"
_ID_DIGITS: Final = 16
_TOKEN: Final = re.compile(rf"{PREFIX}_([0-9a-z]{{10,32}})_([A-Za-z0-9]{{43,64}})", re.ASCII)
_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SECRET_LETTERS: Final = 43
"""62 ** 43 is above 2 ** 256."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token as its owner holds it."""

    id: str
    secret: str

    def __repr__(self) -> str:
        """Without the secret, which must not come into a log."""
        return f"Token({self.id})"

    @property
    def text(self) -> str:
        """What is sent after `Bearer`."""
        return f"{PREFIX}_{self.id}_{self.secret}"

    @property
    def digest(self) -> bytes:
        """What is kept of it."""
        return hashlib.sha256(self.secret.encode()).digest()

    def matches(self, digest: bytes) -> bool:
        """Whether this is the token whose digest was kept; takes as long for a wrong one."""
        return hmac.compare_digest(self.digest, digest)


def new_token() -> Token:
    """A token that nobody has had before."""
    return Token(_random(_ID_DIGITS, _ALPHABET[:36]), _random(_SECRET_LETTERS, _ALPHABET))


def read_token(text: str) -> Token | None:
    """The token that a text is; None: it can't be one."""
    found = _TOKEN.fullmatch(text)
    return Token(found[1], found[2]) if found is not None else None


def _random(length: int, alphabet: str) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))
