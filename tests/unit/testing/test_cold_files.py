"""Random files with one hot group, next to the same files with all groups in memory: each key has the same results at
the same times, whatever is deployed."""

import json
import random
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from sluicegate.streams.config import loading
from sluicegate.streams.config.text import document
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.testing.driver import TestDriver
from tests.pairs.judge import file_of

Tree = dict[str, Any]
EMITS: tuple[Tree | None, ...] = (None, {"every": "10s"}, {"count": 2}, {"on": "change"}, {"count": 2, "final": False})
TIMEOUTS = ("40s", {"after": "20s", "since": "last"}, {"at": "due", "unit": "s", "first": "1m"})
FIELDS: Tree = {"spent": {"sum": "amount"}, "all": {"collect": "amount"}, "low": {"min": "amount"}, "n": "count"}
KINDS: tuple[Tree, ...] = ({"tumbling": "10s"}, {"hopping": "20s", "every": "10s"}, {"session": "5s"})
LATES: tuple[Tree | None, ...] = (None, {"amend": "1m", "every": "7s"}, {"amend": "1m", "every": "7s"}, {"new": "7s"})
POLICIES = ("convert", "convert", "finish", "flush", "drop")
BEGIN = 1_767_225_600  # of the driver's clock


def a_rule(chance: random.Random) -> Tree:
    compute = {name: FIELDS[name] for name in chance.sample(sorted(FIELDS), chance.randint(1, 3))}
    rule: Tree = {"from": "in", "to": {"topic": "out"}, "aggregate": {"compute": compute}}
    ends = {"window": {"tumbling": "30s", "grace": "5s"}} if chance.random() < 0.3 else {}
    rule["aggregate"] |= ends or {"timeout": chance.choice(TIMEOUTS)}
    rule["aggregate"] |= {"count": 5} if chance.random() < 0.5 else {}
    emit = chance.choice(EMITS)
    return rule | ({"emit": emit} if emit else {})


def changed(rule: Tree, chance: random.Random) -> Tree:
    """The rule with an end, a computed field or early results of another one."""
    other, rule = a_rule(chance), deepcopy(rule)
    if "window" not in rule["aggregate"] and "timeout" in other["aggregate"]:
        rule["aggregate"]["timeout"] = other["aggregate"]["timeout"]
    if chance.random() < 0.3:
        rule["aggregate"]["compute"] = other["aggregate"]["compute"]
    rule.pop("emit", None)
    return rule | ({"emit": other["emit"]} if "emit" in other else {})


def app(rule: Tree, hot: int | None) -> Any:
    rule = deepcopy(rule)
    rule["aggregate"] |= {"hot_groups": hot} if hot else {}
    file = loading.judge(document.parse(json.dumps(file_of(rule)), {}, Path()), "shop.yaml", Path())
    assert file.app is not None, file.problems
    return file.app


def outputs(driver: TestDriver) -> list[Any]:
    return sorted((output.key, output.raw, output.id) for output in driver.read("out"))


def history(seed: int, hot: int | None) -> list[Any]:
    """The outputs after each step, and the refusals of deployments. Three rules run one after the other."""
    chance = random.Random(seed)
    rule = a_rule(chance)
    steps: list[Any] = []
    with TestDriver(app(rule, hot), partitions=1) as driver:
        for number in range(24):
            for _ in range(chance.randint(1, 4)):
                value = {"amount": chance.randint(0, 9), "due": BEGIN + chance.randint(0, 200)}
                driver.send("in", value, key=f"k{chance.randint(0, 5)}")
            driver.advance(chance.choice([0, 1, 5, 11]))
            if number % 8 == 7:
                rule = changed(rule, chance)
                try:
                    driver.deploy(app(rule, hot), chance.choice(POLICIES))
                except ConfigurationError as error:
                    steps.append(str(error))
            steps.append(outputs(driver))
        driver.advance(300)
        steps.append(outputs(driver))
        assert driver.troubles() == []
    return steps


@pytest.mark.parametrize("seed", [*range(8), 23, 34])
def test_results_do_not_depend_on_which_groups_are_cold(seed: int) -> None:
    """7: early results by the clock replace those by the number of records. 23, 34: a rule with early results and items
    gets its first deadline from the data."""
    assert history(seed, 1) == history(seed, None)


def late_history(seed: int, hot: int | None) -> list[Any]:
    """As `history`, of windows with late records. A deployment changes what happens to late records."""
    chance = random.Random(seed)
    kind = chance.choice(KINDS)
    lates = LATES if "session" not in kind else (None, {"new": "7s"})
    compute = {name: FIELDS[name] for name in chance.sample(sorted(FIELDS), 2)}
    steps: list[Any] = []

    def made() -> Any:
        late = chance.choice(lates)
        window = {**kind, "grace": "2s", "idle": "20s"} | ({"late": late} if late else {})
        rule = {"compute": compute, "window": window, "on_full": "dead-letter"}
        return app({"from": "in", "to": {"topic": "out"}, "aggregate": rule}, hot)

    with TestDriver(made(), partitions=1) as driver:
        now = BEGIN
        for number in range(32):
            for _ in range(chance.randint(1, 4)):
                at, key = now - chance.choice([0, 0, 2, 10, 30, 70]), f"k{chance.randint(0, 5)}"
                driver.send("in", {"amount": chance.randint(0, 9)}, key=key, timestamp=at)
            pause = chance.choice([0, 1, 5, 11])
            driver.advance(pause)
            now += pause
            if number % 8 == 7:
                try:
                    driver.deploy(made(), "convert")
                except ConfigurationError as error:
                    steps.append(str(error))
            steps.append(outputs(driver))
        driver.advance(300)
        steps.append(outputs(driver))
        assert driver.troubles() == []
    return steps


@pytest.mark.parametrize("seed", range(12))
def test_results_of_late_records_do_not_depend_on_which_groups_are_cold(seed: int) -> None:
    assert late_history(seed, 1) == late_history(seed, None)
