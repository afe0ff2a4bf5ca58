"""The shadow and the corrections of results with rows that were looked up: the rows are those of the results."""

import json
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.streams.agent import Destination, Lookup, Reducer
from sluicegate.streams.shadow import judge
from tests.unit.engine.scene import an_agent
from tests.unit.shadow.scene import Scene, all_identical
from tests.unit.shadow.test_corrections import Corrector

CUSTOMER = Lookup("customer", "topic", "customers", "key", ("name",))
PLAIN = replace(an_agent(count=3, since_first=2.5), lookups=(CUSTOMER,))
RULES = {
    "plain": PLAIN,
    "missing": replace(PLAIN, lookups=(replace(CUSTOMER, missing="dead-letter"),)),
    "having": replace(PLAIN, having="default(customer.name, 'none') != 'n2'", history="history"),
    "routes": replace(PLAIN, to=None, routes=(Destination("large", where="total > 9"), Destination("out"))),
}


class Rows(Scene):
    """As Scene; the rows change while it works."""

    def __init__(self, name: str, seed: int) -> None:
        self.made = False
        super().__init__(RULES[name], partitions=2, seed=seed)

    def start(self) -> None:
        if not self.made:
            self.made = True
            self.log.create("customers", 1)
            self.rows("abc")
        super().start()

    def rows(self, keys: str) -> None:
        for key in keys:
            name = f"n{self.random.randrange(4)}"
            self.log.append("customers", 0, key.encode(), json.dumps({"name": name}).encode())

    def turn(self, times: int = 3) -> None:
        super().turn(times)
        if self.random.random() < 0.1:
            self.rows(self.random.choice("abcdef"))


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("seed", range(3))
def test_results_with_rows_are_identical_though_the_rows_changed(name: str, seed: int) -> None:
    scene = Rows(name, seed)
    scene.play(150, kill=0.2)
    comparison = scene.shadow()
    uncertain = comparison.results.counts["uncertain"]
    comparison.results.counts["uncertain"] = 0
    assert all_identical(comparison), comparison.document()
    assert comparison.results.counts["identical"] > 20 > (0 if name == "having" else uncertain)


def test_twin_without_the_rows_of_the_results_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Rows("plain", 1)
    scene.play(100)
    nothing: Any = judge.KnownRows({"customer": None})
    monkeypatch.setattr(judge, "known_rows", lambda *_: nothing)
    assert not all_identical(scene.shadow())


def test_a_correction_has_the_rows_of_what_it_replaces() -> None:
    scene = Rows("plain", 2)
    scene.play(120)
    rule = PLAIN.aggregation
    assert rule is not None
    more = replace(rule, compute=(*rule.compute, Reducer("largest", "max", "amount")))
    corrector = Corrector(scene, replace(PLAIN, aggregation=more))
    corrector.run()
    live = {
        dict(message.h)["sluicegate-id"].decode(): json.loads(message.v)
        for p in scene.log.topics["out"]
        for message in p
    }
    assert len(corrector.sent()) == len(live)
    for record in corrector.sent():
        replaced = live[dict(record.headers())["sluicegate-replaces"].decode()]
        document = json.loads(record.value())
        assert document.pop("largest") is not None
        assert document == replaced
