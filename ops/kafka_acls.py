"""Gives Kafka the access lists of `ops.kafka_roles`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kafka_access import kafka_client
from ops.errors import OpsError
from ops.kafka_roles import Entry, Kind, Operation

ANSWER_S: Final = 15.0
_KINDS: Final[dict[Kind, ResourceType]] = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
_OPERATIONS: Final[dict[Operation, AclOperation]] = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "Create": AclOperation.CREATE,
    "Delete": AclOperation.DELETE,
    "AlterConfigs": AclOperation.ALTER_CONFIGS,
}


class AclsRefused(OpsError):
    """Kafka did not take the access lists; the message says what it said."""


def apply(bootstrap: str, entries: Sequence[Entry]) -> None:
    """Add these entries to Kafka's access list; those that are there stay. Raises AclsRefused.

    The login is the process' own: it must be one that may change the list (a super user, or Alter on the
    cluster).
    """
    admin = AdminClient({**kafka_client(bootstrap), "log_level": 2})
    bindings = [
        AclBinding(
            _KINDS[one.kind],
            one.name,
            ResourcePatternType.PREFIXED if one.start else ResourcePatternType.LITERAL,
            one.principal,
            "*",
            _OPERATIONS[one.operation],
            AclPermissionType.ALLOW,
        )
        for one in entries
    ]
    try:
        for answer in admin.create_acls(bindings, request_timeout=ANSWER_S).values():
            answer.result(ANSWER_S + 1)
    except (KafkaException, TimeoutError) as error:
        said = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
        raise AclsRefused(
            f"Kafka did not take the access lists ({said}). It needs a login that may change them "
            "(KAFKA_SASL_USERNAME), and brokers with an authorizer (authorizer.class.name)."
        ) from error
