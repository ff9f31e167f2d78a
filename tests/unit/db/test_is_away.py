"""Which errors mean "the database is away, wait" (spec/dispatch.md, Failures in step 4)."""

from __future__ import annotations

import socket

import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from db.pool import conninfo_for, is_away


@pytest.mark.parametrize(
    "error",
    [
        errors.lookup("08000")(),
        errors.lookup("08006")(),
        errors.lookup("57P01")(),
        errors.lookup("57P02")(),
        errors.lookup("57P03")(),
        errors.lookup("53100")(),
        errors.lookup("53200")(),
        errors.lookup("53300")(),
        psycopg.OperationalError("the connection is lost"),
        errors.ConnectionTimeout("no answer"),
        PoolTimeout("no connection"),
        PoolClosed("closed"),
        TooManyRequests("queue is full"),
        ConnectionResetError(),
        ConnectionRefusedError(),
        BrokenPipeError(),
        socket.gaierror(),
        TimeoutError(),
    ],
    ids=lambda error: f"{type(error).__name__}-{getattr(error, 'sqlstate', None)}",
)
def test_away(error: BaseException) -> None:
    assert is_away(error)


@pytest.mark.parametrize(
    "error",
    [
        errors.lookup("57014")(),  # a statement timeout is the statement's own trouble
        errors.lookup("23505")(),
        errors.lookup("23503")(),
        errors.lookup("22P02")(),
        errors.lookup("42P01")(),
        errors.lookup("40001")(),
        errors.lookup("55P03")(),
        psycopg.InterfaceError("cursor is closed"),
        psycopg.ProgrammingError("bad parameters"),
        psycopg.DataError("bad value"),
        ValueError(),
        KeyError("x"),
    ],
    ids=lambda error: f"{type(error).__name__}-{getattr(error, 'sqlstate', None)}",
)
def test_not_away(error: BaseException) -> None:
    assert not is_away(error)


def test_a_connection_names_itself_and_keeps_the_urls_own_options() -> None:
    made = conninfo_to_dict(
        conninfo_for(
            "postgresql://u@h:1/d?options=-c%20search_path%3Dcrm&keepalives_idle=99",
            "sink",
            {"statement_timeout": "250", "datestyle": "ISO, YMD"},
        )
    )
    assert made["application_name"] == "rajada-sink"
    assert made["options"] == "-c search_path=crm -c statement_timeout=250 -c datestyle=ISO,\\ YMD"
    assert (made["host"], made["dbname"], made["keepalives_idle"]) == ("h", "d", "99")


def test_an_application_name_of_the_url_wins() -> None:
    assert conninfo_to_dict(conninfo_for("dbname=d application_name=mine", "x"))["application_name"] == "mine"
