"""`rajada topics acls` and `rajada roles`: what they print, and that they change nothing unasked."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from db.roles import ROLES, NoSuchRole
from ops import kafka_roles
from ops.cli import tree
from settings import get_settings


@pytest.fixture(autouse=True)
def _named_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/crm")
    monkeypatch.setenv("RAJADA_TOPIC_PREFIX", "acme.")
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


def rajada(*arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(tree(), list(arguments))
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.exit_code, found.output


def test_access_lists_are_commands_or_json_for_the_principals_that_are_named() -> None:
    code, told = rajada("topics", "acls", "reconciler", "--principal", "reconciler=User:CN=r")
    assert code == 0
    lines = told.splitlines()
    assert (
        "kafka-acls.sh --bootstrap-server 127.0.0.1:1 --command-config admin.properties --add "
        "--allow-principal User:CN=r --operation Read --group acme.yzex-conect"
    ) in lines
    code, told = rajada("topics", "acls", "reconciler", "--json")
    right = {"kind": "group", "name": "acme.yzex-conect", "start": False, "operation": "Read"}
    assert code == 0 and {"principal": "User:rajada-reconciler", **right} in json.loads(told)


@pytest.mark.parametrize("principal", ["web", "web=CN=web", "sink=User:sink"])
def test_a_principal_that_is_none_is_refused(principal: str) -> None:
    code, told = rajada("topics", "acls", "web", "--principal", principal)
    assert code == 2 and "ROLE=User:NAME" in " ".join(told.split())


def test_where_nobody_can_be_asked_nothing_is_changed_without_yes() -> None:
    for command in (["topics", "acls", "--apply"], ["roles", "--apply"]):
        code, told = rajada(*command)
        assert code == 2 and "--yes" in told


def test_roles_are_sql_with_the_names_that_are_wanted() -> None:
    code, told = rajada("roles", "--prefix", "acme_")
    assert code == 0 and "{role}" not in told
    assert [f'CREATE ROLE "acme_{role}" LOGIN' in told for role in ROLES] == [True] * len(ROLES)
    assert 'CREATE ROLE "acme_relay" LOGIN REPLICATION' in told


def test_a_role_that_there_is_none_of_is_told_with_those_that_there_are() -> None:
    with pytest.raises(kafka_roles.NoSuchRole, match="delays"):
        rajada("topics", "acls", "nobody")
    with pytest.raises(NoSuchRole, match="reconciler"):
        rajada("roles", "nobody")
