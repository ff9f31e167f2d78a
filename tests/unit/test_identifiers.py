"""The shape of UUIDs and the ids we derive from them."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.identifiers import again_source_event_id, canonical_row_id, canonical_uuid, job_id

ORG = "c67e2041-df70-4032-b3dd-cd46e156ceb2"
EVENT = "0dbb2fb3-5db2-4391-bbd8-fc43e311fbce"


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        True,
        b"0dbb2fb3-5db2-4391-bbd8-fc43e311fbce",
        "",
        "abc",
        "0dbb2fb3-5db2-0391-bbd8-fc43e311fbce",  # version 0
        "0dbb2fb3-5db2-9391-bbd8-fc43e311fbce",  # version 9
        "0dbb2fb3-5db2-4391-7bd8-fc43e311fbce",  # variant of another family
        "0dbb2fb3-5db2-4391-cbd8-fc43e311fbce",
        "0dbb2fb35db24391bbd8fc43e311fbce",
        "{0dbb2fb3-5db2-4391-bbd8-fc43e311fbce}",
        "0dbb2fb3-5db2-4391-bbd8-fc43e311fbce\n",
        " 0dbb2fb3-5db2-4391-bbd8-fc43e311fbce",
        "0dbb2fb3-5db2-4391-bbd8-fc43e311fbcé",
        "٠dbb2fb3-5db2-4391-bbd8-fc43e311fbce",  # a digit, but not an ASCII one
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ],
)
def test_b007_what_is_not_a_payload_uuid(text: object) -> None:
    assert canonical_uuid(text) is None


@pytest.mark.parametrize("version", "12345678")
@pytest.mark.parametrize("variant", "89abAB")
def test_b007_every_version_and_variant_of_the_rfc_is_one(version: str, variant: str) -> None:
    text = f"0DBB2FB3-5db2-{version}391-{variant}bd8-FC43e311fbce"
    assert canonical_uuid(text) == text.lower()


def test_b007_the_nil_uuid_is_accepted_as_shape() -> None:
    assert canonical_uuid("00000000-0000-0000-0000-000000000000") == "00000000-0000-0000-0000-000000000000"


@given(st.uuids())
def test_row_ids_take_any_128_bits(value: UUID) -> None:
    assert canonical_row_id(str(value).upper()) == str(value)


@pytest.mark.thorough
@given(st.text() | st.none() | st.integers())
def test_row_ids_refuse_the_rest(value: object) -> None:
    assert canonical_row_id(value) is None


def test_job_ids_never_change() -> None:
    assert job_id(ORG, EVENT) == "2cdc2fc3-42cd-5623-8c93-9c35530cf98f"
    assert job_id(ORG, EVENT, 1_700_000_000_000) == "3aa2765c-cf90-520e-acb9-ddd60be8a1e8"
    assert again_source_event_id(EVENT, 1_700_000_000_000) == "314f9afd-a7b7-525a-b356-0bf6994c6832"


def test_job_ids_differ_by_organization_event_and_again() -> None:
    ids = {
        job_id(ORG, EVENT),
        job_id(str(uuid4()), EVENT),
        job_id(ORG, str(uuid4())),
        job_id(ORG, EVENT, 1),
        job_id(ORG, EVENT, 2),
        again_source_event_id(EVENT, 1),
        again_source_event_id(EVENT, 2),
    }
    assert len(ids) == 7
    assert all(canonical_uuid(one) == one for one in ids)
