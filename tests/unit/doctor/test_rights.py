"""Rights are read from the roles' files, and what is missing is named."""

from __future__ import annotations

import re

import pytest

from db.roles import ROLES, grants_of
from db.roles.rights import Right, rights_in
from ops.doctor.rights import rights_verdict


def test_each_form_of_a_grant_is_read() -> None:
    text = """-- GRANT ALL ON nothing TO {role};
    GRANT SELECT, UPDATE (a, b) ON t, s.u TO {role};  -- for locks
    GRANT USAGE ON SCHEMA s, r TO {role};
    GRANT SELECT ON ALL TABLES IN SCHEMA s TO {role};
    GRANT EXECUTE ON FUNCTION
        s.f(integer, text), s.g()
    TO {role};
    GRANT USAGE ON SEQUENCE s.q TO {role};"""
    assert rights_in(text) == [
        *(
            Right("table", name, privilege, column)
            for name in ("t", "s.u")
            for privilege, column in (("SELECT", ""), ("UPDATE", "a"), ("UPDATE", "b"))
        ),
        Right("schema", "s", "USAGE"),
        Right("schema", "r", "USAGE"),
        Right("tables", "s", "SELECT"),
        Right("function", "s.f(integer, text)", "EXECUTE"),
        Right("function", "s.g()", "EXECUTE"),
        Right("sequence", "s.q", "USAGE"),
    ]


@pytest.mark.parametrize("role", ROLES)
def test_every_grant_of_a_file_is_read(role: str) -> None:
    text = re.sub(r"--[^\n]*", "", grants_of(role))
    statements = text.count("GRANT ")
    assert statements and len(re.findall(r"TO \{role\};", text)) == statements
    assert {one.privilege for one in rights_in(grants_of(role))} <= {
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "USAGE",
        "EXECUTE",
    }


def test_what_is_missing_is_named_with_what_to_do() -> None:
    assert rights_verdict({}).level == "ok"
    assert rights_verdict({"sink": []}).level == "ok"
    lacking = [Right("table", "job_queue", "UPDATE", "status"), Right("schema", "rajada", "USAGE")]
    told = rights_verdict({"sink": lacking, "web": []})
    assert told.level == "fail" and "rajada roles --apply" in told.advice
    assert told.found == "sink lacks UPDATE (status) on job_queue and 1 more"
