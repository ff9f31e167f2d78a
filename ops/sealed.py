"""Access tokens in plain text are sealed when the database is migrated, if there is a key."""

from __future__ import annotations

from db.runs import connect
from db.sealing import Seals, reseal_numbers
from settings import Settings


def seal_what_is_plain(url: str, settings: Settings) -> str:
    """Seal what stands there in plain text; empty: nothing was to be done, or can be.

    Without a key they stay readable, and `rajada doctor` tells of them. Raises psycopg.Error.
    """
    seals = Seals.of(settings)
    if not seals.can_seal:
        return ""
    with connect(url, "migrate") as connection:
        done, _ = reseal_numbers(connection, seals, plain_alone=True)
    return f"sealed {done} access tokens of WhatsApp numbers" if done else ""
