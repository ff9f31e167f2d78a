"""A forwarder that comes back is the same to Kafka; two at once never are."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.delays.identity import identity


def test_a_forwarder_that_comes_back_has_its_name_again(tmp_path: Path) -> None:
    with identity(tmp_path) as first:
        pass
    with identity(tmp_path) as again:
        assert again == first


def test_several_on_one_folder_have_a_name_each_and_get_them_again(tmp_path: Path) -> None:
    with identity(tmp_path) as one, identity(tmp_path) as two, identity(tmp_path) as three:
        names = [one, two, three]
        assert len(set(names)) == 3
    with identity(tmp_path) as one, identity(tmp_path) as two, identity(tmp_path) as three:
        assert [one, two, three] == names


def test_the_first_free_name_is_taken(tmp_path: Path) -> None:
    first = identity(tmp_path)
    one = first.__enter__()
    with identity(tmp_path) as two:
        first.__exit__(None, None, None)
        with identity(tmp_path) as again:
            assert again == one != two


@pytest.mark.parametrize("where", ["missing", "file"])
def test_without_a_folder_the_name_is_a_new_one(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    with identity(tmp_path / where) as one, identity(tmp_path / where) as two:
        assert one != two
    assert not (tmp_path / "missing").exists()


def test_an_empty_file_gets_a_name(tmp_path: Path) -> None:
    (tmp_path / "delays-0.id").write_text("\n")
    with identity(tmp_path) as name:
        assert len(name) == 32
    assert (tmp_path / "delays-0.id").read_text() == name
