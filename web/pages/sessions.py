"""Sessions of the live page: signed cookies, and the tokens against forged forms that go with them (pure).

Nothing is kept of a session. Its cookie names the token, when it ends, and a random number, signed with a key
that is made of the token's stored digest: who revokes the token ends all its sessions.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Final

COOKIE: Final = "rajada_live"
LOGIN_COOKIE: Final = "rajada_live_login"
"""Of the form that logs in: who sends it must have been given the form."""
LASTS_S: Final = 12 * 3600
_COOKIE: Final = re.compile(r"([0-9a-z]{10,32})\.([0-9]{1,12})\.([0-9a-f]{32})\.([0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Session:
    """What a cookie claims; true once `is_good` says so."""

    token_id: str
    ends_s: int
    """Unix s."""
    nonce: str
    mac: str = ""

    def __repr__(self) -> str:
        """Without what opens the page."""
        return f"Session({self.token_id})"

    @property
    def cookie(self) -> str:
        """The cookie's value."""
        return f"{self._claim}.{self.mac}"

    def is_good(self, digest: bytes, now_s: float) -> bool:
        """Whether we made it for the token with this digest, and it has not ended."""
        return hmac.compare_digest(self.mac, _mac(digest, "session", self._claim)) and now_s < self.ends_s

    def form_token(self, digest: bytes) -> str:
        """What each form of the session carries."""
        return _mac(digest, "form", self._claim)

    @property
    def _claim(self) -> str:
        return f"{self.token_id}.{self.ends_s}.{self.nonce}"


def new_session(token_id: str, digest: bytes, now_s: float) -> Session:
    """A session that begins now."""
    made = Session(token_id, int(now_s) + LASTS_S, secrets.token_hex(16))
    return Session(made.token_id, made.ends_s, made.nonce, _mac(digest, "session", made._claim))


def read_session(cookie: str) -> Session | None:
    """What a cookie claims; None: it is none of ours."""
    found = _COOKIE.fullmatch(cookie)
    return Session(found[1], int(found[2]), found[3], found[4]) if found is not None else None


def new_login() -> str:
    """The random number that binds a login's form to a browser."""
    return secrets.token_hex(16)


def same(one: str, other: str) -> bool:
    """Whether two texts are equal, in a time that tells nothing; two empty ones are not."""
    # bytes: what others send may be no ASCII
    return bool(one) and hmac.compare_digest(one.encode(), other.encode(errors="replace"))


def _mac(digest: bytes, purpose: str, claim: str) -> str:
    return hmac.new(digest, f"rajada live {purpose}\n{claim}".encode(), hashlib.sha256).hexdigest()
