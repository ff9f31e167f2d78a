"""A data folder is ours by its marker; anything else is refused before a byte is written."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ops.embedded.folder import LAYOUT_VERSION, MARKER, Lock, find_folder, open_folder, read_json, write_json
from ops.errors import AlreadyRunning, FolderRefused


def test_a_new_folder_is_marked_and_opened_again(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "deep" / "home")
    assert read_json(folder.root / MARKER)["version"] == LAYOUT_VERSION
    assert folder.logs.is_dir()
    assert folder.status.is_dir()
    assert open_folder(folder.root) == folder
    assert find_folder(folder.root) == folder


def test_git_ignores_all_of_it(tmp_path: Path) -> None:
    assert (open_folder(tmp_path / "home").root / ".gitignore").read_text() == "*\n"


def test_a_folder_with_somebody_elses_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(FolderRefused, match=r"isn't a data folder.*RAJADA_HOME"):
        open_folder(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_that_only_a_lone_worker_used_becomes_ours(tmp_path: Path) -> None:
    (tmp_path / "worker").mkdir()
    assert open_folder(tmp_path).root == tmp_path


def test_a_folder_of_a_newer_layout_is_refused(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "home")
    marker = read_json(folder.root / MARKER)
    write_json(folder.root / MARKER, {**marker, "version": LAYOUT_VERSION + 1})
    for look in (open_folder, find_folder):
        with pytest.raises(FolderRefused, match="newer Rajada"):
            look(folder.root)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"kind": "else", "version": 1}', '{"kind": "rajada data folder"}']
)
def test_a_marker_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / MARKER).write_text(text)
    with pytest.raises(FolderRefused, match="not the marker"):
        open_folder(tmp_path)


def test_a_nearly_full_disk_is_refused_with_the_figures(tmp_path: Path) -> None:
    with pytest.raises(FolderRefused, match=r"MiB left.*Free some space"):
        open_folder(tmp_path / "home", least_free=1 << 60)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderRefused, match="can't be written"):
        open_folder(tmp_path / "file" / "home")


def test_looking_for_a_folder_makes_none(tmp_path: Path) -> None:
    assert find_folder(tmp_path / "home") is None
    assert not (tmp_path / "home").exists()


def test_a_second_holder_of_a_lock_gets_the_refusal(tmp_path: Path) -> None:
    first, second = (Lock(tmp_path / "lock", "taken, do this") for _ in range(2))
    with first:
        first.acquire()
        with pytest.raises(AlreadyRunning, match="taken, do this"):
            second.acquire()
    with second:
        assert second.held


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    hold = (
        "import sys, os, signal; from pathlib import Path; from ops.embedded.folder import Lock;"
        "Lock(Path(sys.argv[1]), '').acquire(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", hold, str(tmp_path / "lock")], check=False)
    with Lock(tmp_path / "lock", "still held"):
        pass


def test_a_json_file_is_replaced_whole_with_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_json(file, {"a": 1}, mode=0o600)
    write_json(file, {"a": 2}, mode=0o600)
    assert json.loads(file.read_text()) == {"a": 2}
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]
