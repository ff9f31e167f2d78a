"""Every statement of db/queries says what it is, and is found by name."""

from __future__ import annotations

import pytest

from db import queries


@pytest.mark.parametrize("name", queries.names())
def test_every_statement_starts_with_what_it_does(name: str) -> None:
    assert queries.load(name).startswith("-- ")


def test_a_wrong_name_says_which_file_is_missing() -> None:
    with pytest.raises(queries.UnknownQuery, match=r"db/queries/nothing_here\.sql"):
        queries.load("nothing_here")
