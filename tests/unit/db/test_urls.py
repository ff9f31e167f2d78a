"""URLs of other databases on the same server."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from db.urls import url_of


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://postgres@127.0.0.1:5432/postgres",
        "postgresql://us%20er:p%40ss@db.example/postgres?sslmode=require&options=-c%20x%3D1",
        "host=/var/run/postgresql user=crm dbname=crm",
        "host=one,two port=5432,5433 dbname=crm",
        "postgresql:///crm",
        "dbname=crm",
    ],
)
def test_only_the_database_changes(url: str) -> None:
    assert conninfo_to_dict(url_of(url, "an other")) == {**conninfo_to_dict(url), "dbname": "an other"}
