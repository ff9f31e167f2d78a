"""Secrets at rest: sealed with keys that the database does not hold.

Fernet (AES-128-CBC with HMAC-SHA256). The first key of RAJADA_SECRET_KEYS seals, any of them opens, so keys
can be changed while everything runs (docs/group-links.md, "Access tokens are sealed").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from psycopg import Connection
from pydantic import SecretStr

from db.queries import load
from settings import RajadaError, Settings

PREFIX: Final = "fernet:"
"""Every sealed secret begins so; what doesn't was stored before secrets were sealed."""


class NoSecretKey(RajadaError):
    """There is no key to seal with; the message says how to make one."""


class SealedElsewhere(RajadaError):
    """A secret was sealed with a key that this process does not have."""


class Seals:
    """Seals and opens.

    Args:
        keys: of `new_key`, the one that seals first; none: nothing can be sealed or opened.
    """

    def __init__(self, keys: Sequence[str] = ()) -> None:
        ferns = [Fernet(key) for key in keys]
        self._first = ferns[0] if ferns else None
        self._all = MultiFernet(ferns) if ferns else None

    @classmethod
    def of(cls, settings: Settings) -> Seals:
        """Those of the settings."""
        return cls(settings.secret_key_list())

    @property
    def can_seal(self) -> bool:
        """Whether there is a key."""
        return self._first is not None

    def seal(self, secret: str) -> str:
        """A secret as it may be stored. Raises NoSecretKey."""
        if self._first is None:
            raise NoSecretKey(
                "Secrets are stored sealed, and RAJADA_SECRET_KEYS is not set. `rajada whatsapp key` makes a "
                "key: set it for every process of this installation, keep a copy apart from the database."
            )
        return PREFIX + self._first.encrypt(secret.encode()).decode()

    def open(self, stored: str) -> SecretStr:
        """The secret that was stored. Raises SealedElsewhere."""
        if not is_sealed(stored):
            return SecretStr(stored)
        if self._all is None:
            raise SealedElsewhere("It is sealed, and RAJADA_SECRET_KEYS is not set for this process.")
        try:
            return SecretStr(self._all.decrypt(stored.removeprefix(PREFIX)).decode())
        except (InvalidToken, UnicodeDecodeError):
            raise SealedElsewhere(
                "It is sealed with a key that RAJADA_SECRET_KEYS of this process lacks."
            ) from None

    def is_current(self, stored: str) -> bool:
        """Whether it is sealed with the first key."""
        if self._first is None or not is_sealed(stored):
            return False
        try:
            self._first.decrypt(stored.removeprefix(PREFIX))
        except InvalidToken:
            return False
        return True


def new_key() -> str:
    """A key that nobody has had before."""
    return Fernet.generate_key().decode()


def is_sealed(stored: str) -> bool:
    """Whether a stored secret is sealed."""
    return stored.startswith(PREFIX)


def reseal_numbers(
    connection: Connection[tuple[Any, ...]], seals: Seals, *, plain_alone: bool = False
) -> tuple[int, int]:
    """Seal the access tokens of all WhatsApp numbers with the first key, or only those in plain text.

    Returns how many were sealed anew, and how many are left since no key opens them. One that is changed
    meanwhile is left to whoever changes it. Raises NoSecretKey, psycopg.Error.
    """
    done = left = 0
    for organization_id, _, stored in connection.execute(load("whatsapp_number_secrets")).fetchall():
        if seals.is_current(stored) or (plain_alone and is_sealed(stored)):
            continue
        try:
            sealed = seals.seal(seals.open(stored).get_secret_value())
        except SealedElsewhere:
            left += 1
            continue
        values = {"organization_id": organization_id, "was": stored, "access_token": sealed}
        done += connection.execute(load("whatsapp_number_reseal"), values).rowcount
    return done, left
