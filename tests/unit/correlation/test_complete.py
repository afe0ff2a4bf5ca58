"""A failing `complete` is shown as the file has it."""

import json
from pathlib import Path
from typing import Any

import pytest

from sluicegate import App
from sluicegate.streams.operations.rebuilding.rebuild import unaccountable
from sluicegate.streams.testing.files import loaded

FILE = """\
app: shop
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: memory://
agents:
  settle:
    correlate:
      legs: {order: orders, payment: payments}
      complete: has(payment) && payment.amount > 3
      timeout: 15m
    to: settled
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "shop.yaml").write_text(FILE)
    return tmp_path / "shop.yaml"


def test_a_dead_letter_names_complete_and_the_leg(file: Path) -> None:
    with App.from_yaml(file).test_driver() as driver:
        driver.send("payments", {"amount": "much"}, key="k")
        [letter] = driver.dead_letters()
    headers: dict[str, Any] = dict(letter.headers)
    assert headers["sluicegate-dead-clause"] == "complete"
    assert "group" not in json.dumps(headers["sluicegate-dead-error"])


def test_a_rebuild_takes_correlations_and_the_agents_of_their_legs(file: Path) -> None:
    app = loaded(file).app
    assert app is not None
    assert [unaccountable(agent) for agent in app.agents] == [None] * len(app.agents)
