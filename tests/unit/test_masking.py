"""Errors are shown without the people and secrets in them."""

from __future__ import annotations

import pytest

from schemas.masking import LONGEST, masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("connection refused\nDETAIL: more", "connection refused"),
        ("\n\n  late first line", "late first line"),
        ("contact +55 11 98765-4321 is unknown", "contact *** is unknown"),
        ("phone=5511987654321", "phone=***"),
        ("phone (11) 98765-4321.", "phone ***."),
        ("mail ana.souza+x@clinica.com.br bounced", "mail ***@*** bounced"),
        ("password=hunter2 host=db", "password=*** host=db"),
        ("Authorization: Bearer abc.def.ghi", "Authorization: ***"),
        ("token abc123, next", "token ***, next"),
        ("postgresql://rajada:s3cret@db:5432/crm", "postgresql://***@db:5432/crm"),
        (
            "event 0dbb2fb3-5db2-4391-bbd8-123456789012 of 5511987654321",
            "event 0dbb2fb3-5db2-4391-bbd8-123456789012 of ***",
        ),
        ("sqlstate_57014 after 250 ms at offset 1234567", "sqlstate_57014 after 250 ms at offset 1234567"),
        ("", ""),
    ],
)
def test_what_is_masked_and_what_stays(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_at_most_300_characters() -> None:
    assert len(masked("x" * 5_000)) == LONGEST
