"""The command's exit code is the accounts' verdict."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from ops import cli
from ops.demo import run
from ops.demo.accounts import Accounts
from ops.demo.instances import Instances
from ops.demo.links import Links
from ops.errors import exit_code_of
from tests.unit.demo.test_accounts import accounts_of
from tests.unit.demo.told import a_run


def played(monkeypatch: pytest.MonkeyPatch, accounts: Accounts) -> int:
    """The exit code of a demo that ends with these accounts."""
    ended = run.Run(accounts, "k:9092", "postgresql://p/d", Path("home"), "")
    monkeypatch.setattr(run, "run_demo", lambda *given, **more: ended)
    result = CliRunner().invoke(cli.tree(), ["demo", "--json"])
    if isinstance(result.exception, SystemExit) or result.exception is None:
        return result.exit_code
    return exit_code_of(result.exception)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({}, 0),
        ({"lost": ("a",)}, 10),
        ({"doubled": ("a",)}, 10),
        ({"noise_lost": 1}, 10),
        ({"unended": ("job-a",)}, 10),
        ({"misanswered": ("job-a",)}, 10),
        ({"links": Links(2, 0, 1, 1, 2, ("Ana",))}, 10),
        ({"links": Links(2, 0, 1, 1, 1, ())}, 0),
        ({"instances": Instances(4, 3, {"provisioning": 1}, 0, 0)}, 10),
        ({"complete": False}, 130),
    ],
)
def test_whatever_is_unaccounted_for_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, object], code: int
) -> None:
    assert played(monkeypatch, msgspec.structs.replace(accounts_of(a_run()), **wrong)) == code
