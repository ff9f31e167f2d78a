"""A process that has to end does end, whatever hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from streams.transport import EXIT_CODE

BLOCKED = """
import sys, threading, time
from streams.transport import failure
failure.LAST_WORDS = 0.2
threading.Thread(target=lambda: sys.stdout.write("x" * 1_000_000), daemon=True).start()
time.sleep(0.3)
failure.end_process(RuntimeError("it failed"))
"""
STOPPING = """
import asyncio
from streams.transport.failure import end_by
async def never_ends():
    await asyncio.Event().wait()
async def main():
    end_by(0.2, asyncio.get_running_loop())
    await never_ends()
asyncio.run(main())
"""


def run(source):
    read, write = os.pipe()  # nobody reads: it fills, and writing to it blocks
    began = time.monotonic()
    try:
        with subprocess.Popen([sys.executable, "-c", source], stdout=write, stderr=write) as process:
            return process.wait(20), time.monotonic() - began
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.thorough
def test_nobody_who_listens_is_no_reason_to_go_on():
    code, took = run(BLOCKED)
    assert code == EXIT_CODE
    assert took < 15


@pytest.mark.thorough
def test_a_deadline_ends_what_hangs_and_says_what_it_was():
    done = subprocess.run([sys.executable, "-c", STOPPING], capture_output=True, check=False, timeout=30)
    assert done.returncode == EXIT_CODE
    assert b"never_ends" in done.stdout + done.stderr
