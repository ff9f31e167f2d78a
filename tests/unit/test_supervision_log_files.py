"""Logs are bounded while processes append to them, and can be read from their end."""

import threading
from pathlib import Path

from ops.supervision.log_files import bound, follow, last_lines


def test_only_a_log_over_its_bound_is_set_aside_and_its_writer_goes_on(tmp_path: Path) -> None:
    (tmp_path / "small.log").write_text("x" * 10)
    with (tmp_path / "big.log").open("ab", buffering=0) as writer:
        writer.write(b"y" * 100)
        assert bound(tmp_path, 50) == [tmp_path / "big.log"]
        writer.write(b"new")
    assert (tmp_path / "big.log").read_bytes() == b"new"
    assert (tmp_path / "big.log.1").read_bytes() == b"y" * 100
    assert (tmp_path / "small.log").read_text() == "x" * 10


def test_the_last_lines_are_read_from_a_file_larger_than_a_block(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(f"line {number} {'x' * 100}\n" for number in range(5_000)))
    assert [line.split()[1] for line in last_lines(log, 3)] == ["4997", "4998", "4999"]
    assert len(last_lines(log, 10_000)) == 5_000
    assert last_lines(log, 0) == []


def test_following_tells_what_is_appended_and_starts_over_when_emptied(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("old\n")
    told = follow(log)
    with log.open("a") as writer:
        # the generator notes the size when it is first asked, so ask while something new comes in
        threading.Timer(0.1, lambda: (writer.write("new\n"), writer.flush())).start()
        assert next(told) == "new\n"
    log.write_text("x\n")
    assert next(told) == "x\n"
