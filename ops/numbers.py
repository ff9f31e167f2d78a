"""Numbers in sentences (pure)."""

from __future__ import annotations


def several(count: int, what: str, many: str | None = None) -> str:
    """`1 letter`, `2,000 letters`; `many` is the plural where it isn't with s."""
    return f"{count:,} {what if count == 1 else many or f'{what}s'}"
