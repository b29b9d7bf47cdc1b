"""The manifests, as kustomize puts them together, are what Kubernetes and its operator take."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from tests.deploy.tools import (
    DEPLOY,
    GRAFANA,
    ROOT,
    documents,
    optional_program,
    passes,
    read_yaml,
)
from tests.javascript.tools import compiled, said
from traceml.sidecar.linger import MAX_LINGER_SECONDS
from traceml.sidecar.listen import PORT

KUBERNETES = DEPLOY / "kubernetes"
FOLDERS = [".", "training", "training-multinode"]
JOBS = FOLDERS[1:]
VERSIONS = ["1.29", kubernetes_validate.latest_version()]  # 1.29 is the first with sidecars
CONFIG_MAP_BYTES = 2**20  # that is all that etcd takes
OPERATOR = "monitoring.coreos.com/v1"

each_job = pytest.mark.parametrize("folder", JOBS)


@dataclass(frozen=True)
class Pod:
    """A training Job's pod."""

    job: dict[str, Any]

    @property
    def template(self) -> dict[str, Any]:
        template: dict[str, Any] = self.job["spec"]["template"]
        return template

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.template["spec"]
        return spec

    @property
    def sidecar(self) -> dict[str, Any]:
        return named(self.spec["initContainers"], "traceml")

    @property
    def training(self) -> dict[str, Any]:
        return named(self.spec["containers"], "train")

    @property
    def containers(self) -> list[dict[str, Any]]:
        return [*self.spec["initContainers"], *self.spec["containers"]]


def named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = [item for item in items if item["name"] == name]
    return found


def mounted(container: dict[str, Any], path: str) -> str:
    """The name of the volume that a container has there."""
    (mount,) = [each for each in container["volumeMounts"] if each["mountPath"] == path]
    return str(mount["name"])


def rendered(folder: Path) -> list[dict[str, Any]]:
    kubectl = optional_program("kubectl")
    return documents(passes(kubectl, "kustomize", folder))


def pod(folder: str) -> Pod:
    (job,) = [each for each in rendered(KUBERNETES / folder) if each["kind"] == "Job"]
    return Pod(job)


def operator_s(resources: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (each for each in resources if each["apiVersion"] == OPERATOR)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("folder", FOLDERS)
def test_kubernetes_takes_every_resource(folder: str, version: str) -> None:
    own = [each for each in rendered(KUBERNETES / folder) if each["apiVersion"] != OPERATOR]
    assert own
    for resource in own:
        kubernetes_validate.validate(resource, version, strict=True)


def judged(folder: Path, resource: dict[str, Any]) -> str:
    """What the operator's published types and schemas have against a resource."""
    types = "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1"
    kind, text = f"I{resource['kind']}", json.dumps(resource)
    source = f'import type {{ {kind} }} from "{types}";\nexport default {text} satisfies {kind};\n'
    return compiled(folder, {"resource.ts": source}).stdout + said("validate_resource.mjs", text)


def test_the_operator_takes_its_resources(tmp_path: Path) -> None:
    kinds = set()
    for resource in operator_s(rendered(KUBERNETES)):
        assert judged(tmp_path, resource) == ""
        kinds.add(resource["kind"])
    assert kinds == {"PodMonitor", "PrometheusRule"}


def test_a_name_or_a_value_that_the_operator_does_not_know_would_be_found(tmp_path: Path) -> None:
    def of(endpoint: dict[str, str]) -> str:
        spec = {"selector": {}, "podMetricsEndpoints": [endpoint]}
        metadata = {"name": "traceml"}
        resource = {"apiVersion": OPERATOR, "kind": "PodMonitor", "metadata": metadata}
        return judged(tmp_path, {**resource, "spec": spec})

    assert of({"port": "traceml", "interval": "15s"}) == ""
    assert "intervall" in of({"port": "traceml", "intervall": "15s"})
    assert "interval" in of({"port": "traceml", "interval": "often"})


def test_the_operator_s_rules_are_rules_that_prometheus_takes(
    promtool: str, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps(read_yaml(KUBERNETES / "prometheusrule.yaml")["spec"]))
    passes(promtool, "check", "rules", "--lint=all", "--lint-fatal", rules)


@each_job
def test_a_pod_may_run_where_only_restricted_ones_may(folder: str) -> None:
    """As the Pod Security Standards have it."""
    spec = pod(folder).spec
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert all(volume.keys() == {"name", "emptyDir"} for volume in spec["volumes"])
    for container in pod(folder).containers:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert not {"runAsUser", "runAsNonRoot", "privileged", "seccompProfile"} & context.keys()


@each_job
def test_the_sidecar_starts_before_the_training_and_cannot_hold_it_up(folder: str) -> None:
    sidecar = pod(folder).sidecar
    assert sidecar["restartPolicy"] == "Always"
    assert "startupProbe" not in sidecar
    assert sidecar["securityContext"]["readOnlyRootFilesystem"] is True
    assert "cpu" not in sidecar["resources"]["limits"]


@each_job
def test_ranks_find_the_sidecar_s_socket(folder: str) -> None:
    found = pod(folder)
    endpoint = named(found.training["env"], "TRACEML_ENDPOINT")["value"]
    assert f"--listen={endpoint}" in found.sidecar["args"]
    shared = str(Path(endpoint.removeprefix("unix://")).parent)
    assert mounted(found.sidecar, shared) == mounted(found.training, shared)


@each_job
def test_probes_and_scrapes_ask_the_port_that_is_served(folder: str) -> None:
    found = pod(folder)
    assert found.sidecar["ports"] == [{"name": "traceml", "containerPort": PORT}]
    asked = {kind: found.sidecar[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness")}
    assert asked == {
        "liveness": {"path": "/healthz", "port": "traceml"},
        "readiness": {"path": "/readyz", "port": "traceml"},
    }
    monitor = read_yaml(KUBERNETES / "podmonitor.yaml")["spec"]
    assert (
        monitor["selector"]["matchLabels"].items() <= found.template["metadata"]["labels"].items()
    )
    assert [each["port"] for each in monitor["podMetricsEndpoints"]] == ["traceml"]


@each_job
def test_there_is_time_for_the_last_scrape(folder: str) -> None:
    assert pod(folder).spec["terminationGracePeriodSeconds"] > MAX_LINGER_SECONDS + 10


def test_all_nodes_of_a_job_make_one_run() -> None:
    found = pod("training-multinode")
    name = named(found.sidecar["env"], "TRACEML_RUN_NAME")["valueFrom"]
    assert name == named(found.training["env"], "JOB")["valueFrom"]
    assert found.job["spec"]["completionMode"] == "Indexed"
    assert found.job["spec"]["parallelism"] == found.job["spec"]["completions"]
    assert f"--nnodes={found.job['spec']['completions']} " in found.training["args"][0]


def changed(folder: str, added: str, into: Path) -> Path:
    """A copy of a folder, with lines added to its kustomization."""
    copied = into / "kubernetes"
    shutil.copytree(KUBERNETES, copied)
    with (copied / folder / "kustomization.yaml").open("a") as file:
        file.write(added)
    return copied / folder


def test_a_run_of_another_name_finds_its_own_pods(tmp_path: Path) -> None:
    copied = changed("training-multinode", "nameSuffix: '-42'\n", tmp_path)
    resources = {each["kind"]: each for each in rendered(copied)}
    service, found = resources["Service"], Pod(resources["Job"])
    assert service["metadata"]["name"] == found.spec["subdomain"] == "train-multinode-42"
    assert named(found.training["env"], "SERVICE")["value"] == service["metadata"]["name"]
    assert service["spec"]["selector"].items() <= found.template["metadata"]["labels"].items()


def test_a_job_that_does_not_ask_for_the_sidecar_stays_as_it_is(tmp_path: Path) -> None:
    pods = {
        "terminationGracePeriodSeconds": 5,
        "securityContext": {"runAsUser": 2000},
        "restartPolicy": "Never",
        "containers": [{"name": "train", "image": "other:1"}],
    }
    other = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "other", "namespace": "training"},
        "spec": {"template": {"spec": pods}},
    }
    copied = changed("training", "", tmp_path)
    (copied / "other.yaml").write_text(json.dumps(other))
    kustomization = copied / "kustomization.yaml"
    kustomization.write_text(
        kustomization.read_text().replace("[job.yaml]", "[job.yaml, other.yaml]")
    )
    jobs = {each["metadata"]["name"]: each for each in rendered(copied)}
    assert jobs["other"] == other
    assert Pod(jobs["train"]).sidecar


def test_patches_of_a_kustomization_of_one_s_own_win(tmp_path: Path) -> None:
    """Those that docs/deployment.md shows."""
    page = (ROOT / "docs" / "deployment.md").read_text()
    (shown,) = re.findall(r"```yaml\n(?:components:.+\n)(patches:\n.+?)```", page, re.DOTALL)
    (job,) = rendered(changed("training", shown, tmp_path))
    assert Pod(job).spec["terminationGracePeriodSeconds"] == 300
    assert Pod(job).spec["securityContext"]["runAsUser"] == 2000
    assert Pod(job).sidecar


def test_every_dashboard_becomes_a_config_map_that_grafana_looks_for() -> None:
    maps = [each for each in rendered(KUBERNETES) if each["kind"] == "ConfigMap"]
    found = {name: text for each in maps for name, text in each["data"].items()}
    files = {file.name: file.read_text() for file in (GRAFANA / "dashboards").glob("*.json")}
    assert found == files
    for each in maps:
        assert each["metadata"]["labels"] == {"grafana_dashboard": "1"}
        assert each["metadata"]["namespace"] == "training"
        assert len(json.dumps(each)) < CONFIG_MAP_BYTES
