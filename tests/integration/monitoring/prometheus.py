"""Prometheus of the distribution, with the alert rules of deploy/."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from tests.servers import free_port
from tests.waiting import wait_until

PROJECT = Path(__file__).resolve().parents[3]
ALERTS = PROJECT / "deploy" / "prometheus" / "alerts.yml"
Alert = tuple[str, str]
"""The name of a rule, and the agent that it is about."""


def binary(name: str) -> str:
    """The path of a program of the package `prometheus`. Skips the test where there is none; fails it in CI, which
    installs it."""
    if path := shutil.which(name):
        return path
    text = f"no {name}: install the distribution's package `prometheus`"
    if os.environ.get("CI"):
        pytest.fail(text)
    pytest.skip(text)


def at_once() -> dict[str, Any]:
    """The rules of deploy/ with the same expressions, that fire after one second and not after minutes."""
    rules: dict[str, Any] = yaml.safe_load(ALERTS.read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["for"] = "1s"
    return rules


class Prometheus:
    """One that asks a port of this machine every second."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def query(self, expression: str) -> list[Any]:
        """The series that an expression gives now. Raises HTTPError if it is wrong."""
        return self._get("query?" + urlencode({"query": expression}))["result"]

    def alerts(self) -> set[Alert]:
        """What fires."""
        firing_alerts = self._get("alerts")["alerts"]
        return {
            (a["labels"]["alertname"], a["labels"].get("agent", "")) for a in firing_alerts if a["state"] == "firing"
        }

    def scraped(self) -> bool:
        """Whether the port answered."""
        return [series["value"][1] for series in self.query("up")] == ["1"]

    def _get(self, what: str) -> Any:
        with urlopen(f"{self._url}/{what}", timeout=10) as answer:
            return json.load(answer)["data"]


@contextmanager
def watching(target: int, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus of the port `target`, with the rules of `at_once`."""
    program, port = binary("prometheus"), free_port()
    (folder / "alerts.yml").write_text(yaml.safe_dump(at_once()))
    scrape = {"job_name": "sluicegate", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
    pace = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config = {"global": pace, "rule_files": ["alerts.yml"], "scrape_configs": [scrape]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen([program, *options, f"--web.listen-address=127.0.0.1:{port}"], stderr=log)
        try:
            made = Prometheus(port)
            wait_until(lambda: _ready(made), 30.0, f"Prometheus ({folder}/prometheus.log)", pause=0.2)
            yield made
        finally:
            process.terminate()
            process.wait(10)


def _ready(made: Prometheus) -> bool:
    try:
        return made.scraped()
    except OSError:
        return False
