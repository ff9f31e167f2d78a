"""A snapshot file is read as it was written, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.transport.snapshot import Draft, Head, SnapshotUnusable, entries, read

HEAD = Head("app-contacts-changelog", "an id", 3, 1234, "0000000100000007", 1_700_000_000.5)


def written(path, pairs, publish=True):
    draft = Draft(path, HEAD)
    for i in range(0, len(pairs), 2):
        draft.write(entries(pairs[i : i + 2]))
    if publish:
        draft.publish()
    draft.discard()
    return path


@pytest.mark.thorough
@given(st.lists(st.tuples(st.binary(), st.binary())))
def test_what_is_written_is_read(tmp_path_factory, pairs):
    path = written(tmp_path_factory.mktemp("s") / "deep" / "p.snapshot", pairs)
    head, found = read(path)
    assert head == HEAD
    assert list(found) == pairs
    assert [file.name for file in path.parent.iterdir()] == ["p.snapshot"]


def test_no_file_is_no_error(tmp_path):
    assert read(tmp_path / "p.snapshot") is None


def test_a_draft_that_was_not_published_leaves_the_one_before(tmp_path):
    path = written(tmp_path / "p.snapshot", [(b"k", b"old")])
    written(path, [(b"k", b"new")], publish=False)
    assert list(read(path)[1]) == [(b"k", b"old")]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.thorough
def test_every_cut_and_every_changed_byte_is_noticed(tmp_path):
    path = written(tmp_path / "p.snapshot", [(b"key", b"value"), (b"k2", b""), (b"", b"v")])
    whole = path.read_bytes()
    for i in range(len(whole)):
        for damaged in (whole[:i], whole[:i] + bytes([whole[i] ^ 0x55]) + whole[i + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(SnapshotUnusable):
                read(path)


def test_a_folder_in_its_place_is_told(tmp_path):
    (tmp_path / "p.snapshot").mkdir()
    with pytest.raises(SnapshotUnusable, match="can't be read"):
        read(tmp_path / "p.snapshot")
