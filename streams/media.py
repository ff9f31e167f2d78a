"""Stop 8: a photo or an audio is still being read (pure).

Rules: spec/dispatch.md, step 4, stop 8; behaviours b072 to b086.
"""

from __future__ import annotations

from typing import Final

CEILING_MS: Final = 120_000
"""Nobody waits longer: neither for one file, counted from its row's creation, nor beyond a window's own
deadline."""


def wait_ms(
    created_ms: float | None, db_now_ms: float, now_ms: int, deadline_ms: int, recheck_ms: int
) -> int:
    """How long until the window is looked at again because of unread media; 0 = don't wait.

    Args:
        created_ms: when the newest unread file came, by the database's clock; None: there is none.
        db_now_ms: the database's clock.
        now_ms: the worker's clock.
        deadline_ms: the window's own deadline, by the worker's clock.
        recheck_ms: how often to look.
    """
    if created_ms is None:
        return 0
    left_ms = min(created_ms + CEILING_MS - db_now_ms, deadline_ms + CEILING_MS - now_ms)
    if not left_ms > 0:
        return 0
    return max(1, int(min(left_ms, recheck_ms)))
