"""Whether workers outlive a broker that dies: Kafka must notice it before a record is given up."""

from __future__ import annotations

import math
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata, ConfigResource, ResourceType

from kafka_access import kafka_client
from ops.doctor.findings import Verdict, ok, warn
from streams.transport.producer import MESSAGE_TIMEOUT

ANSWER_S: Final = 5.0
MOVES_ON_S: Final = 1.0
"""What a cluster needs for new leaders, once it has noticed."""
_CONFIG: Final = "broker.session.timeout.ms"


def failover(cluster: ClusterMetadata, bootstrap: str, session_s: float) -> Verdict:
    """What the session timeouts of brokers and workers mean together; `session_s`: the workers'."""
    if len(cluster.brokers) < 2:
        return ok("a single broker: nobody takes its place")
    noticed_s = _noticed_s(next(iter(cluster.brokers)), bootstrap)
    if noticed_s is None:
        return ok(f"the brokers don't tell us their {_CONFIG} (DescribeConfigs on the cluster)")
    return verdict(noticed_s, session_s)


def verdict(noticed_s: float, session_s: float) -> Verdict:
    """Kafka notices a dead broker after `noticed_s`, workers have this session timeout (s)."""
    patience_s = session_s * MESSAGE_TIMEOUT
    found = f"a dead broker is noticed in {noticed_s:g} s, workers wait {patience_s:g} s for a record"
    if patience_s >= noticed_s + MOVES_ON_S:
        return ok(found)
    wanted_s = math.ceil((noticed_s + MOVES_ON_S) / MESSAGE_TIMEOUT)
    return warn(
        f"{found}: those that write to it end and start again",
        f"nothing is lost by it; to go on without, set RAJADA_SESSION_TIMEOUT_S to {wanted_s} or more, or "
        f"lower the brokers' {_CONFIG}",
    )


def _noticed_s(broker: int, bootstrap: str) -> float | None:
    """The brokers' session timeout, None when we aren't told."""
    admin = AdminClient({**kafka_client(bootstrap), "log_level": 0})
    asked = ConfigResource(ResourceType.BROKER, str(broker))
    try:
        told = admin.describe_configs([asked], request_timeout=ANSWER_S)[asked].result(ANSWER_S + 1)
    except (KafkaException, TimeoutError):
        return None
    found = told.get(_CONFIG)
    return int(found.value) / 1000 if found is not None and found.value else None
