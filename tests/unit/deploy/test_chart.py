"""The Helm chart, rendered: its parts fit together. Without `helm` these tests are skipped."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluicegate.streams.config.loading import load

PROJECT = Path(__file__).resolve().parents[3]
CHART = PROJECT / "deploy" / "helm" / "sluicegate"
EVERYTHING = ("autoscaling", "serviceMonitor", "prometheusRule", "dashboard")
KINDS = {
    ("Deployment", "shop"),
    ("ConfigMap", "shop"),
    ("PodDisruptionBudget", "shop"),
    ("NetworkPolicy", "shop"),
    ("ConfigMap", "shop-prepare"),
    ("Job", "shop-prepare"),
}
MORE = {
    ("ScaledObject", "shop"),
    ("Service", "shop"),
    ("ServiceMonitor", "shop"),
    ("PrometheusRule", "shop"),
    ("ConfigMap", "shop-dashboard"),
}

needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="no helm on this machine")


def helm(command: str, *options: str) -> subprocess.CompletedProcess[str]:
    release = ["shop"] if command == "template" else []
    return subprocess.run(["helm", command, *release, str(CHART), *options], capture_output=True, text=True, timeout=60)


def rendered(*settings: str) -> dict[tuple[str, str], Any]:
    """The documents, by kind and name."""
    done = helm("template", *(option for setting in settings for option in ("--set", setting)))
    assert done.returncode == 0, done.stderr
    documents = [document for document in yaml.safe_load_all(done.stdout) if document]
    assert all({"apiVersion", "kind", "metadata"} <= document.keys() for document in documents)
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}


@needs_helm
def test_helm_finds_no_fault() -> None:
    done = helm("lint", "--strict")
    assert done.returncode == 0, done.stdout + done.stderr


@needs_helm
def test_what_is_not_asked_for_is_not_there() -> None:
    assert rendered().keys() == KINDS
    assert rendered(*(f"{name}.enabled=true" for name in EVERYTHING)).keys() == KINDS | MORE
    few = rendered(
        "prepare.enabled=false",
        "podDisruptionBudget.enabled=false",
        "networkPolicy.enabled=false",
        "files=null",
        "file=/app/app.yaml",
    )
    assert few.keys() == {("Deployment", "shop")}


@needs_helm
def test_pods_have_probes_no_privileges_and_every_volume_that_they_mount() -> None:
    documents = rendered()
    for key in (("Deployment", "shop"), ("Job", "shop-prepare")):
        pod = documents[key]["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["automountServiceAccountToken"] is False
        volumes = {volume["name"] for volume in pod["volumes"]}
        maps = [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume]
        assert all(("ConfigMap", name) in documents for name in maps)
        for container in [*pod.get("initContainers", ()), *pod["containers"]]:
            assert {mount["name"] for mount in container["volumeMounts"]} == volumes
            assert container["securityContext"]["readOnlyRootFilesystem"]
            variables = {variable["name"] for variable in container.get("env", ())}
            assert variables <= {"SLUICEGATE_INSTANCE"}  # passwords are files
    container = documents["Deployment", "shop"]["spec"]["template"]["spec"]["containers"][0]
    paths = [container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness", "readiness")]
    assert paths == ["/livez", "/livez", "/readyz"]
    assert container["args"] == ["run", "/etc/sluicegate/app.yaml", "--workers", "1"]
    [instance] = container["env"]
    assert instance["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}


@needs_helm
def test_what_selects_the_pods_finds_them() -> None:
    documents = rendered(*(f"{name}.enabled=true" for name in EVERYTHING))
    deployment = documents["Deployment", "shop"]["spec"]
    labels = deployment["template"]["metadata"]["labels"].items()
    service = documents["Service", "shop"]
    budget = documents["PodDisruptionBudget", "shop"]["spec"]["selector"]["matchLabels"]
    policy = documents["NetworkPolicy", "shop"]["spec"]
    pods = policy["podSelector"]["matchLabels"]
    for selector in (deployment["selector"]["matchLabels"], service["spec"]["selector"], budget, pods):
        assert selector.items() <= labels
    monitor = documents["ServiceMonitor", "shop"]["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert documents["ScaledObject", "shop"]["spec"]["scaleTargetRef"] == {"name": "shop"}
    assert "replicas" not in deployment
    [container] = deployment["template"]["spec"]["containers"]
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == {container["ports"][0]["name"]}


@needs_helm
def test_the_rules_and_the_dashboard_are_those_of_deploy() -> None:
    documents = rendered(*(f"{name}.enabled=true" for name in EVERYTHING))
    rules = yaml.safe_load((PROJECT / "deploy" / "prometheus" / "alerts.yml").read_text())
    assert documents["PrometheusRule", "shop"]["spec"] == rules
    dashboard = (PROJECT / "deploy" / "grafana" / "sluicegate.json").read_text()
    assert documents["ConfigMap", "shop-dashboard"]["data"] == {"sluicegate.json": dashboard}


@needs_helm
def test_an_app_whose_groups_would_wait_for_records_is_refused() -> None:
    done = helm("template", "--set", "autoscaling.enabled=true,autoscaling.minReplicas=0")
    assert done.returncode != 0
    assert "minReplicas must be 1 or more" in done.stderr


def test_the_app_of_the_chart_is_right(tmp_path: Path) -> None:
    """Its secrets lie in another folder here."""
    text: str = yaml.safe_load((CHART / "values.yaml").read_text())["files"]["app.yaml"]
    (tmp_path / "store").write_text("postgresql://shop@db.example/shop?sslmode=verify-full")
    (tmp_path / "token").write_text("0123456789abcdef")
    (tmp_path / "ca.crt").write_text("")
    file = tmp_path / "app.yaml"
    file.write_text(text.replace("/run/secrets/sluicegate", str(tmp_path)))
    outcome = load(str(file), {})
    assert (outcome.problems, outcome.warnings) == ((), ())
