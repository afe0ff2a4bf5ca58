"""What the files of deploy/ refer to is there: metrics, folders, services, files."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluicegate.streams.config.loading import load
from sluicegate.streams.observe.collector import PREFIX
from sluicegate.streams.observe.metrics import METRICS

PROJECT = Path(__file__).resolve().parents[3]
DEPLOY = PROJECT / "deploy"
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
EXPOSED = {PREFIX + metric.name + suffix for metric in METRICS for suffix in SUFFIXES[metric.kind]}


def expressions() -> list[str]:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
    panels = json.loads((DEPLOY / "grafana" / "sluicegate.json").read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert len(shown) > 15
    return [rule["expr"] for rule in rules] + shown


def test_alerts_and_panels_ask_for_metrics_that_there_are() -> None:
    assert {name for text in expressions() for name in re.findall(rf"{PREFIX}\w+", text)} <= EXPOSED


def test_a_dashboard_has_one_id_for_each_panel_and_no_panel_over_another() -> None:
    panels = json.loads((DEPLOY / "grafana" / "sluicegate.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [cell for panel in panels for cell in cells(panel["gridPos"])]
    assert len({*taken}) == len(taken)
    assert all(x < 24 for x, _ in taken)


def cells(place: dict[str, int]) -> list[tuple[int, int]]:
    right, bottom = place["x"] + place["w"], place["y"] + place["h"]
    return [(x, y) for x in range(place["x"], right) for y in range(place["y"], bottom)]


def test_the_image_copies_what_there_is_and_runs_as_a_user_of_its_own() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    copied = [
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]
    assert copied
    assert [name for name in copied if not (PROJECT / name).exists()] == []
    let_in = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert {f"!{name}" for name in copied} <= {*let_in}
    links = {path.readlink().parts[-1] for path in (PROJECT / "sluicegate").iterdir() if path.is_symlink()}
    assert links <= {*copied}
    last = [line for line in lines if line.startswith(("USER", "FROM"))]
    assert last[-1] == "USER 10001:10001"
    assert sum(line.startswith("FROM ") for line in lines) == 2


def test_the_services_of_compose_refer_to_files_and_services_that_there_are() -> None:
    file = DEPLOY / "docker-compose.yml"
    document = yaml.safe_load(file.read_text())
    services: dict[str, Any] = document["services"]
    for service in services.values():
        assert set(service.get("depends_on", ())) <= services.keys()
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in document["volumes"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        if extended := service.get("extends"):
            theirs = yaml.safe_load((DEPLOY / extended["file"]).read_text())["services"][extended["service"]]
            assert {volume.split(":")[0] for volume in theirs["volumes"]} <= document["volumes"].keys()
        elif build := service.get("build"):
            assert (DEPLOY / build["context"] / build["dockerfile"]).exists()
    mounted = [volume.split(":")[1] for volume in services["grafana"]["volumes"]]
    provider = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/sluicegate.yaml").read_text())["providers"][0]
    assert f"{provider['options']['path']}/sluicegate.json" in mounted


def test_the_app_of_compose_is_right() -> None:
    file = str(DEPLOY / "app.yaml")
    environment = yaml.safe_load((DEPLOY / "docker-compose.yml").read_text())["services"]["prepare"]["environment"]
    outcome = load(file, {**environment, "HTTP_TOKEN": "0123456789abcdef"})
    assert outcome.problems == ()
    assert outcome.app is not None
    assert outcome.app.http is not None
    assert outcome.app.http.host == "0.0.0.0"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
def test_systemd_knows_every_line_of_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "sluicegate@.service").read_text()
    assert verified(tmp_path, text) == ""
    assert "Unknown key" in verified(tmp_path, text.replace("KillMode=", "KilMode="))


def verified(folder: Path, text: str) -> str:
    """What systemd says of the unit, with a command that is on this machine."""
    unit = folder / "sluicegate@shop.service"
    unit.write_text(text.replace("/opt/sluicegate/bin/sluicegate", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60)
    return "\n".join(line for line in done.stderr.splitlines() if unit.name in line)
