"""How the C library's allocator is to treat large blocks (Linux with glibc; elsewhere nothing is done)."""

from __future__ import annotations

import ctypes
from typing import Final

_M_MMAP_THRESHOLD: Final = -3
"""As in malloc.h."""
LARGE_BYTES: Final = 128 * 1024


def give_large_blocks_back() -> bool:
    """Let blocks of 128 KiB and more be mappings of their own: the system gets them back when they are freed.

    glibc begins so, and raises its bound up to 32 MiB when such a block is freed. From then on what a fetch
    brings lies between values that stay for minutes, these fill the hole that it leaves, and the next one
    needs new room: 74 MB in use took 498 MB of a thread's arena (malloc_stats, 38 minutes of 500 events/s).
    Returns whether it is so now.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES))
