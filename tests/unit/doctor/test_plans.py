"""Which tables a plan reads from end to end."""

from __future__ import annotations

import pytest

from ops.doctor.plans import WholeRead, verdicts, whole_reads
from ops.doctor.postgres import room

BY_ORGANIZATION = "((organization_id = a.organization_id) AND (created_at <= (array_agg(messages.id))[1]))"
BY_CONVERSATION = "((conversation_id = a.conversation_id) AND (direction = 'inbound'::text))"


@pytest.mark.parametrize(
    ("node", "found"),
    [
        ({"Node Type": "Index Scan", "Relation Name": "messages", "Index Cond": BY_CONVERSATION}, []),
        (
            {
                "Node Type": "Index Scan", "Relation Name": "messages",
                "Index Cond": BY_ORGANIZATION, "Filter": BY_CONVERSATION,
            },
            [WholeRead("messages", "conversation_id")],
        ),
        ({"Node Type": "Seq Scan", "Relation Name": "organizations", "Filter": "x"}, []),
        ({"Node Type": "Function Scan", "Function Name": "unnest"}, []),
        (
            {"Node Type": "Seq Scan", "Relation Name": "messages", "Filter": BY_CONVERSATION},
            [WholeRead("messages", "conversation_id")],
        ),
        # by the order that it wants, but from the newest message of the whole table on
        (
            {"Node Type": "Index Scan", "Relation Name": "messages", "Filter": BY_CONVERSATION},
            [WholeRead("messages", "conversation_id")],
        ),
        (
            {
                "Node Type": "Bitmap Heap Scan", "Relation Name": "messages", "Recheck Cond": "x",
                "Plans": [{"Node Type": "Bitmap Index Scan", "Index Cond": "(contact_id = a.contact_id)"}],
            },
            [],
        ),
        ({"Node Type": "Seq Scan", "Relation Name": "contacts"}, [WholeRead("contacts", "")]),
    ],
)  # fmt: skip
def test_a_scan_without_a_condition_on_its_index_reads_all(
    node: dict[str, object], found: list[WholeRead]
) -> None:
    assert list(whole_reads({"Node Type": "Nested Loop", "Plans": [node]})) == found


def test_the_index_that_is_missing_is_told_as_one_can_make_it() -> None:
    assert [one.found for one in verdicts([], [])] == ["too few rows yet to judge"]
    assert [one.level for one in verdicts([], ["messages"])] == ["ok"]
    whole = [WholeRead("messages", "conversation_id"), WholeRead("contacts", "id")]
    by_conversation, other = verdicts(whole, ["contacts", "messages"])
    assert by_conversation.level == "warn" and "no index on conversation_id" in by_conversation.found
    assert by_conversation.advice.startswith("CREATE INDEX CONCURRENTLY ON messages (organization_id, conv")
    assert other.advice == "CREATE INDEX CONCURRENTLY ON contacts (id)"


@pytest.mark.parametrize(
    ("used", "level"), [(20, "ok"), (87, "ok"), (88, "warn"), (97, "warn"), (99, "warn")]
)
def test_few_connections_left_is_a_warning(used: int, level: str) -> None:
    verdict = room(used, 97, 9)
    assert verdict.level == level and f"{used} of 97 are used, 9 of them by Rajada" in verdict.found
    assert "-" not in verdict.found
