"""What KEDA takes as a ScaledObject (keda.sh/v1alpha1), as far as ours goes, as a JSON schema.

Written after KEDA's reference of its specification, closed: a field that isn't here is refused. No Python
package brings KEDA's own schema without changing how tests run.
"""

from __future__ import annotations

from typing import Any, Final

_SECONDS: Final = {"type": "integer", "minimum": 0}
_POLICY: Final = {
    "type": "object",
    "properties": {
        "type": {"enum": ["Pods", "Percent"]},
        "value": {"type": "integer", "minimum": 1},
        "periodSeconds": {"type": "integer", "minimum": 1, "maximum": 1800},
    },
    "required": ["type", "value", "periodSeconds"],
    "additionalProperties": False,
}
_RULES: Final = {
    "type": "object",
    "properties": {
        "stabilizationWindowSeconds": {"type": "integer", "minimum": 0, "maximum": 3600},
        "selectPolicy": {"enum": ["Max", "Min", "Disabled"]},
        "policies": {"type": "array", "items": _POLICY, "minItems": 1},
    },
    "additionalProperties": False,
}
_KAFKA: Final = {
    "type": "object",
    "properties": {
        "bootstrapServers": {"type": "string", "minLength": 1},
        "consumerGroup": {"type": "string", "minLength": 1},
        "topic": {"type": "string", "minLength": 1},
        "lagThreshold": {"type": "string", "pattern": "^[1-9][0-9]*$"},
        "activationLagThreshold": {"type": "string", "pattern": "^[0-9]+$"},
        "offsetResetPolicy": {"enum": ["latest", "earliest"]},
        "allowIdleConsumers": {"enum": ["true", "false"]},
        "limitToPartitionsWithLag": {"enum": ["true", "false"]},
        "scaleToZeroOnInvalidOffset": {"enum": ["true", "false"]},
        "excludePersistentLag": {"enum": ["true", "false"]},
        "version": {"type": "string"},
        "partitionLimitation": {"type": "string"},
        "sasl": {"enum": ["plaintext", "scram_sha256", "scram_sha512", "oauthbearer", "none"]},
        "tls": {"enum": ["enable", "disable"]},
    },
    "required": ["bootstrapServers", "consumerGroup", "topic"],
    "additionalProperties": False,
}

SCALED_OBJECT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "apiVersion": {"const": "keda.sh/v1alpha1"},
        "kind": {"const": "ScaledObject"},
        "metadata": {"type": "object", "required": ["name"]},
        "spec": {
            "type": "object",
            "properties": {
                "scaleTargetRef": {
                    "type": "object",
                    "properties": {
                        "apiVersion": {"type": "string"},
                        "kind": {"type": "string"},
                        "name": {"type": "string"},
                        "envSourceContainerName": {"type": "string"},
                    },
                    "required": ["name"],
                    "additionalProperties": False,
                },
                "pollingInterval": _SECONDS,
                "cooldownPeriod": _SECONDS,
                "initialCooldownPeriod": _SECONDS,
                "idleReplicaCount": {"type": "integer", "minimum": 0},
                "minReplicaCount": {"type": "integer", "minimum": 0},
                "maxReplicaCount": {"type": "integer", "minimum": 1},
                "advanced": {
                    "type": "object",
                    "properties": {
                        "restoreToOriginalReplicaCount": {"type": "boolean"},
                        "horizontalPodAutoscalerConfig": {
                            "type": "object",
                            "properties": {
                                "name": {"type": "string"},
                                "behavior": {
                                    "type": "object",
                                    "properties": {"scaleUp": _RULES, "scaleDown": _RULES},
                                    "additionalProperties": False,
                                },
                            },
                            "additionalProperties": False,
                        },
                    },
                    "additionalProperties": False,
                },
                "triggers": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "properties": {
                            "type": {"const": "kafka"},
                            "name": {"type": "string"},
                            "metadata": _KAFKA,
                            "authenticationRef": {"type": "object", "required": ["name"]},
                            "metricType": {"enum": ["AverageValue", "Value"]},
                            "useCachedMetrics": {"type": "boolean"},
                        },
                        "required": ["type", "metadata"],
                        "additionalProperties": False,
                    },
                },
            },
            "required": ["scaleTargetRef", "triggers"],
            "additionalProperties": False,
        },
    },
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
}
