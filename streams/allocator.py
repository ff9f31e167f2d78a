"""How the memory of a process that holds contacts is to be treated: Python's collector, and the C library's
allocator (Linux with glibc; elsewhere nothing is done to that)."""

from __future__ import annotations

import ctypes
import gc
from typing import Final

_M_MMAP_THRESHOLD: Final = -3
"""As in malloc.h."""
LARGE_BYTES: Final = 128 * 1024
GC_THRESHOLDS: Final = (400_000, 20, 50)
"""The contacts are a large heap without cycles: the default walks all of it again and again (an eighth of
the processor time of an event, measured with and without)."""


def suit_many_contacts() -> None:
    """Set both, once, before contacts are read; whoever is measured beside the worker does the same."""
    gc.set_threshold(*GC_THRESHOLDS)
    give_large_blocks_back()


def give_large_blocks_back() -> bool:
    """Let blocks of 128 KiB and more be mappings of their own: the system gets them back when they are freed.

    glibc begins so, and raises its bound up to 32 MiB when such a block is freed. From then on what a fetch
    brings lies between values that stay for minutes, these fill the hole that it leaves, and the next one
    needs new room: 74 MB in use took 498 MB of a thread's arena (malloc_stats, 38 minutes of 500 events/s).
    Returns whether it is so now.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES))
