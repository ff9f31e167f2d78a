"""The parts of a tier are all of it, each test once, and one that fails is a failure of the whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.in_parts import part_of

ROOT = Path(__file__).parents[2]


@given(st.lists(st.integers(0, 10_000), max_size=60), st.integers(1, 8))
def test_each_file_is_in_one_part_and_none_is_much_heavier_than_another(sizes: list[int], parts: int) -> None:
    files = [(Path(f"test_{number}.py"), size) for number, size in enumerate(sizes)]
    chosen = [part_of(files, number, parts) for number in range(1, parts + 1)]
    assert sorted(file for one in chosen for file in one) == sorted(file for file, _ in files)
    weights = [sum(size for file, size in files if file in one) for one in chosen]
    assert max(weights) - min(weights) <= max(sizes, default=0)


@pytest.mark.thorough
@pytest.mark.parametrize(("body", "code"), [("assert True", 0), ("assert False", 1)])
def test_one_that_fails_is_told_and_fails_the_whole(tmp_path: Path, body: str, code: int) -> None:
    for number in range(4):
        (tmp_path / f"test_{number}.py").write_text(f"def test_{number}():\n    assert True\n")
    (tmp_path / "test_last.py").write_text(f"def test_last():\n    {body}\n")
    command = [
        sys.executable,
        "-m",
        "tests.in_parts",
        str(tmp_path),
        "-p",
        "no:cacheprovider",
        "-q",
        "-c",
        "/dev/null",
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == code, ended.stdout
    assert ("test_last" in ended.stdout) == (code != 0)
    assert sum(
        int(line.split(" passed")[0].split()[-1]) for line in ended.stdout.splitlines() if " passed" in line
    ) == (5 if code == 0 else 4)
