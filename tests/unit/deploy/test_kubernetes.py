"""The manifests say nothing that Kubernetes, KEDA, the code or the image would refuse."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import jsonschema
import pytest

from db.roles import ROLES
from schemas.topic_names import APP_ID, JOBS, OUTCOMES, SOURCE
from settings import Settings
from sinks.outcomes import GROUP as SINK_GROUP
from tests import yaml_texts
from tests.unit.deploy.keda import SCALED_OBJECT
from tests.unit.deploy.shipped import ROOT, parse, setting_names

FOLDER = ROOT / "deploy/k8s"
KUSTOMIZATION = yaml_texts.read((FOLDER / "kustomization.yaml").read_text())
OBJECTS: list[dict[str, Any]] = [
    one for file in KUSTOMIZATION["resources"] for one in yaml_texts.read_all((FOLDER / file).read_text())
]
KUBERNETES = "1.34"
"""The version that the manifests are held against."""


def named(one: dict[str, Any]) -> str:
    return f"{one['kind']}/{one['metadata']['name']}"


def of_kind(*kinds: str) -> list[dict[str, Any]]:
    return [one for one in OBJECTS if one["kind"] in kinds]


WORKLOADS = of_kind("Deployment", "StatefulSet", "Job")
CONTAINERS = [
    (named(workload), pod, container)
    for workload in WORKLOADS
    for pod in [workload["spec"]["template"]["spec"]]
    for container in [*pod.get("initContainers", ()), *pod["containers"]]
]
EACH = pytest.mark.parametrize(
    ("name", "pod", "container"), CONTAINERS, ids=[f"{one[0]} {one[2]['name']}" for one in CONTAINERS]
)
TOLD: dict[str, str] = of_kind("ConfigMap")[0]["data"]
PARTITIONS = int(TOLD["RAJADA_PARTITIONS"])


@pytest.mark.thorough
@pytest.mark.parametrize("one", [one for one in OBJECTS if one["kind"] != "ScaledObject"], ids=named)
def test_kubernetes_takes_it(one: dict[str, Any]) -> None:
    import kubernetes_validate  # takes half a second, which the quick tests of this file need not wait for

    kubernetes_validate.validate(one, KUBERNETES, strict=True)


@pytest.mark.parametrize("one", of_kind("ScaledObject"), ids=named)
def test_keda_takes_it(one: dict[str, Any]) -> None:
    jsonschema.validate(one, SCALED_OBJECT)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**one, "spec": {**one["spec"], "maxReplicas": 3}}, SCALED_OBJECT)


def test_every_manifest_is_in_the_kustomization() -> None:
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(KUSTOMIZATION["resources"])


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
def test_kustomize_builds_it_with_the_image_that_is_named() -> None:
    built = subprocess.run(
        ["kubectl", "kustomize", str(FOLDER)], capture_output=True, text=True, check=True, timeout=60
    )
    whole = list(yaml_texts.read_all(built.stdout))
    assert len(whole) == len(OBJECTS)
    assert {one["metadata"].get("namespace", "rajada") for one in whole} == {"rajada"}
    (image,) = KUSTOMIZATION["images"]
    assert f"image: {image['newName']}:{image['newTag']}\n" in built.stdout


# -- what runs


@EACH
def test_each_command_is_one(name: str, pod: dict[str, Any], container: dict[str, Any]) -> None:
    parse(container["command"])


@EACH
def test_each_variable_is_a_setting_and_each_value_is_taken(
    name: str, pod: dict[str, Any], container: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = dict(TOLD)
    for one in container.get("env", ()):
        environment[one["name"]] = one.get("value", "worker-0")
    assert environment.keys() <= setting_names()
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    settings = Settings(_env_file=None)
    assert settings.least_in_sync == 2 and settings.stop_grace_s < pod.get(
        "terminationGracePeriodSeconds", 30
    )


@EACH
def test_each_has_the_common_secret_and_then_its_own(
    name: str, pod: dict[str, Any], container: dict[str, Any]
) -> None:
    secrets = [one["secretRef"] for one in container["envFrom"] if "secretRef" in one]
    assert secrets[0] == {"name": "rajada-secrets"}
    own = name.partition("/")[2]
    if own != "delays":  # it reaches no database
        assert secrets[1] == {"name": f"rajada-{own}", "optional": True}
        assert own in (*ROLES, "migrate")


@EACH
def test_nothing_runs_as_root_or_writes_but_to_its_volumes(
    name: str, pod: dict[str, Any], container: dict[str, Any]
) -> None:
    (uid,) = re.findall(r"^USER (\d+):", (ROOT / "deploy/image/Dockerfile").read_text(), re.M)
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == int(uid)
    own = container["securityContext"]
    assert own["readOnlyRootFilesystem"] and not own["allowPrivilegeEscalation"]
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert {one["mountPath"] for one in container["volumeMounts"]} == {"/var/lib/rajada", "/tmp"}
    assert pod["automountServiceAccountToken"] is False


@EACH
def test_each_asks_for_what_it_needs(name: str, pod: dict[str, Any], container: dict[str, Any]) -> None:
    resources = container["resources"]
    assert resources["requests"].keys() == {"cpu", "memory"} and resources["limits"].keys() == {"memory"}


@pytest.mark.parametrize("one", of_kind("Deployment", "StatefulSet"), ids=named)
def test_each_is_probed_where_it_listens(one: dict[str, Any]) -> None:
    (container,) = one["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["metrics"] == int(TOLD["RAJADA_METRICS_PORT"])
    probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")}
    assert [probes[kind]["path"] for kind in probes] == ["/startupz", "/readyz", "/livez"]
    assert {probe["port"] for probe in probes.values()} <= ports.keys()
    if "--port" in container["command"]:
        assert ports["http"] == int(container["command"][container["command"].index("--port") + 1])


def test_a_worker_is_named_after_its_pod_and_nobody_else_is() -> None:
    given = [
        (name, one["valueFrom"]["fieldRef"]["fieldPath"])
        for name, _, container in CONTAINERS
        for one in container.get("env", ())
        if one["name"] == "CONSUMER_GROUP_INSTANCE_ID"
    ]
    assert given == [("StatefulSet/worker", "metadata.name")]


# -- what looks at it, by labels and names


def test_every_selector_finds_the_pods_that_it_means() -> None:
    labels = [workload["spec"]["template"]["metadata"]["labels"] for workload in WORKLOADS]
    for workload in of_kind("Deployment", "StatefulSet"):
        own = workload["spec"]["template"]["metadata"]["labels"]
        assert workload["spec"]["selector"]["matchLabels"] == own
        assert own["app.kubernetes.io/component"] == workload["metadata"]["name"]
    for one in of_kind("Service", "PodDisruptionBudget", "NetworkPolicy"):
        selector = one["spec"].get("selector") or one["spec"].get("podSelector")
        wanted = selector.get("matchLabels", {} if "matchExpressions" in selector else selector)
        assert any(wanted.items() <= one_pod.items() for one_pod in labels), named(one)
        for expression in selector.get("matchExpressions", ()):
            assert set(expression["values"]) <= {one_pod[expression["key"]] for one_pod in labels}


def test_scaling_goes_by_the_groups_and_topics_of_the_code_and_stays_within_the_partitions() -> None:
    targets = {named(workload) for workload in WORKLOADS}
    watched = set()
    for one in of_kind("ScaledObject"):
        target = one["spec"]["scaleTargetRef"]
        assert f"{target.get('kind', 'Deployment')}/{target['name']}" in targets
        assert 1 <= one["spec"]["minReplicaCount"] <= one["spec"]["maxReplicaCount"] <= PARTITIONS
        for trigger in one["spec"]["triggers"]:
            about = trigger["metadata"]
            assert about["bootstrapServers"] == TOLD["KAFKA_BOOTSTRAP_SERVERS"]
            watched.add((target["name"], about["consumerGroup"], about["topic"]))
    assert watched == {
        ("worker", APP_ID, SOURCE),
        ("worker", APP_ID, JOBS),
        ("sink", SINK_GROUP, OUTCOMES),
    }


def test_the_network_lets_out_what_the_settings_name() -> None:
    allowed: dict[str, set[int]] = {}
    for policy in of_kind("NetworkPolicy"):
        for rule in policy["spec"].get("egress", ()):
            allowed.setdefault(named(policy), set()).update(port["port"] for port in rule["ports"])
    named_ports = {int(port) for port in re.findall(r":(\d{4,5})", " ".join(TOLD.values()))}
    assert named_ports | {5432, 53} <= allowed["NetworkPolicy/rajada"]
    assert TOLD["AGENT_ENGINE_URL"].startswith("https://") and 443 in allowed["NetworkPolicy/calls-out"]
