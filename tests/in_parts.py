"""`python -m tests.in_parts tests/unit …`: as many pytests as there are cores, each with a part of the files.

With pytest-xdist each worker imports every file, and each test's result travels: for thousands of tests that
take milliseconds this took as long as the tests themselves.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

OPTION = "--part"


def part_of(files: Sequence[tuple[Path, int]], number: int, parts: int) -> set[Path]:
    """The files of one part (from 1), the same ones each time; all parts are about equally large.

    `files`: with their sizes, by which it is guessed how long they take.
    """
    chosen: list[set[Path]] = [set() for _ in range(parts)]
    weights = [0] * parts
    for file, size in sorted(files, key=lambda one: (-one[1], one[0])):
        lightest = weights.index(min(weights))
        chosen[lightest].add(file)
        weights[lightest] += size
    return chosen[number - 1]


# -- inside of pytest (`-p tests.in_parts`)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know the option."""
    parser.addoption(OPTION, default="1/1", help="only this part of the files: 1/2")


class _Part:
    def __init__(self, wanted: set[Path]) -> None:
        self._wanted = wanted

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
        return True if is_test and collection_path not in self._wanted else None


def pytest_configure(config: pytest.Config) -> None:
    """Choose the files."""
    gc.set_threshold(100_000, 20, 100)  # collecting makes hundreds of thousands of objects that stay
    number, parts = map(int, config.getoption(OPTION).split("/"))
    given = (config.invocation_params.dir / one.partition("::")[0] for one in config.args)
    files = [file for one in given for file in (one.rglob("test_*.py") if one.is_dir() else [one])]
    wanted = part_of([(file, file.stat().st_size) for file in files], number, parts)
    config.pluginmanager.register(_Part(wanted), "part of the files")


# -- outside of it


def main(arguments: Sequence[str]) -> int:
    """Run the parts side by side and tell of one after the other; the worst exit code."""
    parts = max(1, min(os.cpu_count() or 1, 8))
    command = [sys.executable, "-m", "pytest", "-p", "tests.in_parts", *arguments]
    running = [
        subprocess.Popen(
            [*command, OPTION, f"{number}/{parts}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for number in range(1, parts + 1)
    ]
    for one in running:
        told, _ = one.communicate()
        sys.stdout.buffer.write(told)
        sys.stdout.flush()
    return max(abs(one.returncode) for one in running)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
