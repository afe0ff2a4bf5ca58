"""The shadow and the corrections of agents without groups: forwarders, and agents that re-key."""

import json
from dataclasses import replace

import pytest

from sluicegate.streams.agent import Agent, Aggregation, Destination, Selected
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.operations.replaying.record_replay import RecordReplay
from sluicegate.streams.operations.replaying.shadowing import ShadowRange
from tests.unit.engine.scene import an_agent
from tests.unit.shadow.scene import Scene, all_identical, figures
from tests.unit.shadow.test_corrections import Corrector

PLAIN = Agent("sums", ("in",), None, Destination("out"), "dead")
ROUTED = replace(
    PLAIN,
    to=None,
    where="default(amount, 0) != 2",
    routes=(
        Destination("large", where="amount > 3", goes_on=True),
        Destination("out", where="amount != 10", select=(Selected("twice", "amount * 2"),)),
    ),
    unrouted="drop",
)
RULES = {
    "plain": PLAIN,
    "routed": ROUTED,
    "unrouted": replace(ROUTED, unrouted="dead-letter"),
    "re-keyed": replace(PLAIN, aggregation=Aggregation(key="amount"), to=Destination("out", "raw"), rekeys="other"),
}


def played(name: str, seed: int = 0, kill: float = 0.0) -> Scene:
    scene = Scene(RULES[name], partitions=2, seed=seed)
    scene.play(150, kill=kill)
    return scene


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("seed", range(3))
def test_what_was_sent_on_is_identical_whatever_crashed(name: str, seed: int) -> None:
    scene = played(name, seed, kill=0.3)
    comparison = scene.shadow()
    assert all_identical(comparison), comparison.document()
    assert comparison.results.counts["identical"] > 20
    assert comparison.records == sum(map(len, scene.log.topics["in"]))
    for since, until in ((0, 20), (17, 41), (30, None)):
        part = scene.shadow(wanted=ShadowRange(since=since, until=until))
        assert all_identical(part), part.document()


def test_a_message_that_is_gone_or_another_one_is_found() -> None:
    scene = played("routed")
    whole = figures(scene.shadow())["identical"]
    message = scene.log.topics["out"][0][5]
    scene.log.topics["out"][0][5] = replace(message, v=b'{"twice":-1}')
    comparison = scene.shadow()
    assert figures(comparison) == {"identical": whole - 1, "changed": 1}
    assert comparison.results.examples["changed"][0].differs == ("twice",)
    scene = played("plain")
    del scene.log.topics["out"][0][5]
    assert figures(scene.shadow())["missing"] == 1


def test_another_route_changes_what_it_says() -> None:
    scene = played("routed")
    rule = replace(ROUTED, routes=(replace(ROUTED.routes[0], where="amount > 2.5"), ROUTED.routes[1]))
    comparison = scene.shadow(rule)
    assert figures(comparison).keys() == {"identical"}
    rule = replace(ROUTED, where="default(amount, 0) != 1")
    assert figures(scene.shadow(rule)).keys() == {"identical", "missing", "extra"}


def test_a_rule_with_groups_has_no_counterpart() -> None:
    with pytest.raises(ConfigurationError, match="only one of the two rules has groups"):
        played("plain").shadow(an_agent())


def test_twin_that_forgets_the_refused_records_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, events = played("unrouted"), RecordReplay.events
    assert all_identical(scene.shadow())
    monkeypatch.setattr(RecordReplay, "events", lambda self, record: events(self, record)[:0])
    assert not all_identical(scene.shadow())


def test_a_correction_replaces_the_messages_of_its_record() -> None:
    scene = played("routed", seed=3)
    select = (Selected("thrice", "amount * 3"),)
    rule = replace(ROUTED, where="default(amount, 0) != 1", routes=(replace(ROUTED.routes[1], select=select),))
    corrector = Corrector(scene, rule)
    corrector.run()
    live = {
        dict(message.h)["sluicegate-id"].decode(): message
        for t in ("out", "large")
        for p in scene.log.topics[t]
        for message in p
    }
    replaced = list[str]()
    for record in corrector.sent():
        names = [name for name in dict(record.headers())["sluicegate-replaces"].decode().split(",") if name]
        replaced += names
        values = [json.loads(live[name].v) for name in names]
        amounts = {value["amount"] if "amount" in value else value["twice"] / 2 for value in values}
        if record.value() is None:
            assert amounts <= {1, 10}
        else:
            thrice = json.loads(record.value())["thrice"]
            assert amounts <= {thrice / 3}
    assert sorted(replaced) == sorted(live)
