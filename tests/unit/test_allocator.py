"""Large blocks go back to the system: what a fetch brought leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys

import pytest

STORY = """
from streams.allocator import give_large_blocks_back

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))

assert give_large_blocks_back()
for size in range(1, 24):  # freed once, such a block makes glibc keep the next of its size
    bytes(size << 20)
before, values = resident(), []
for fetch in range(64):
    brought = [bytearray(b"x" * (1 << 20)) for _ in range(2)]
    values.append(bytearray(b"v" * 4_000))
    kept = brought.pop()
    del brought
    values += [bytearray(b"v" * 4_000) for _ in range(16)]
    del kept
print(resident() - before - len(values) * 4)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it is glibc's, and told by /proc")
def test_values_that_stay_do_not_keep_what_came_with_them() -> None:
    told = subprocess.run([sys.executable, "-c", STORY], capture_output=True, text=True, check=True)
    assert int(told.stdout) < 1_024, "3,000 KiB as glibc does it by itself"
