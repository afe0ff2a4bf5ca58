"""`--call-handlers`: what a handler of groups sent is compared with what it sends now, or corrected by it."""

import random
from dataclasses import replace
from typing import Any, Literal

import pytest

from sluicegate.streams.agent import Agent, Aggregation, App, Handler, Reducer
from sluicegate.streams.errors import ConfigurationError, SystemNotReady
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.groups.open_groups import drop, open_groups
from sluicegate.streams.operations.replaying import replays
from sluicegate.streams.operations.replaying.rewinding import Rewinding
from sluicegate.streams.operations.replaying.shadowing import Shadowing
from sluicegate.streams.shadow.verdicts import Shadowed
from sluicegate.streams.testing.log import LogProducer
from tests.unit.engine import handlers
from tests.unit.engine.histories import HERE, handled
from tests.unit.engine.rebuilding import LogHistory
from tests.unit.shadow.scene import ALL, NoWatch, Scene, all_identical, figures
from tests.unit.shadow.test_corrections import Corrector, Killed, MortalStore, _Flushed, play, problems, results, rule

ROWS = (Reducer("total", "sum", "amount"), Reducer("rows", "collect"))


def called(scene: Scene, live: Agent | None = None) -> Shadowed:
    """The shadow with --call-handlers."""
    agent = live or scene.agent
    app, history = App("app", "memory://", (agent,)), LogHistory(scene.log, f"app.{agent.name}")
    return Shadowing(app, agent, scene.store, history, ALL, NoWatch(), calls=True).compare(agent)


def played(agent: Agent, seed: int = 3, records: int = 150, **how: Any) -> Scene:
    scene = Scene(agent, partitions=2, seed=seed)
    scene.log.create("other", 2)
    scene.play(records, **how)
    return scene


def with_rows(function: str, **how: Any) -> Agent:
    agent = handled(function, **how)
    assert agent.aggregation is not None
    return replace(agent, aggregation=replace(agent.aggregation, compute=ROWS))


# Shadow


@pytest.mark.parametrize("seed", range(3))
def test_what_a_handler_sent_is_identical_whatever_crashed(seed: int) -> None:
    scene = played(handled("result"), seed, 200, kill=0.3, lag=2.0)
    before = {topic: [len(part) for part in parts] for topic, parts in scene.log.topics.items()}
    made = len(handlers.calls)
    comparison = called(scene)
    assert all_identical(comparison), comparison.document()
    assert len(handlers.calls) - made == comparison.results.counts["identical"] > 20
    assert {topic: [len(part) for part in parts] for topic, parts in scene.log.topics.items()} == before
    assert comparison.notes == []


def test_another_code_of_the_handler_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = played(handled("result"))
    whole = figures(called(scene))["identical"]
    monkeypatch.setattr(
        handlers, "result", lambda batch, send: send({"sum": 0 if batch.count < 4 else batch.value["total"]})
    )
    comparison = called(scene)
    assert figures(comparison).keys() == {"identical", "changed"}
    assert sum(figures(comparison).values()) == whole
    assert {example.differs for example in comparison.results.examples["changed"]} == {("sum",)}
    assert all_identical(scene.shadow())  # without the option nobody asks


def test_a_message_that_is_gone_is_found() -> None:
    scene = played(handled("result"))
    whole, messages = figures(called(scene))["identical"], scene.log.topics["out"][0]
    del messages[len(messages) // 2]
    comparison = called(scene)
    assert figures(comparison) == {"identical": whole - 1, "changed": 1}
    assert comparison.results.examples["changed"][0].differs == ("output to out",)


def test_the_handler_fails_as_it_did() -> None:
    """Groups that it gave up are dead letters of both, with the same number of attempts."""
    agent = handled("result", attempts=2)
    scene = Scene(agent, partitions=2, seed=4)
    fails = {total: [ValueError("no")] * 500 for total in (4, 5, 6, 7, 8, 12)}
    handlers.fails.update(fails)
    scene.play(150)
    assert any(dict(letter.h)["sluicegate-dead-stage"] == b"handler" for letter in scene.log.topics["dead"][0])
    assert all_identical(called(scene))
    handlers.fails.clear()
    comparison = called(scene)
    assert figures(comparison).keys() == {"identical", "changed"}
    assert {"topic", "reason of the dead letter"} <= {*comparison.results.examples["changed"][0].differs}


def test_bad_messages_leave_their_group_again() -> None:
    agent = with_rows("choosy_without_session")
    scene = Scene(agent, partitions=2, seed=4)
    handlers.bad.update({10: "ten"})
    scene.play(150)
    assert any("sluicegate-dead-item" in dict(letter.h) for letter in scene.log.topics["dead"][0])
    comparison = called(scene)
    assert all_identical(comparison), comparison.document()
    handlers.bad.clear()
    assert figures(called(scene))["changed"] > 3


def test_the_handler_is_told_that_it_is_a_replay_and_gets_the_same_id() -> None:
    scene = played(handled("whole"))
    lived = [id for id, replay in handlers.calls if not replay]
    handlers.calls.clear()
    called(scene)
    assert {replay for _, replay in handlers.calls} == {True}
    assert {id for id, _ in handlers.calls} == set(lived)


def test_an_outage_ends_the_command() -> None:
    scene = played(handled("result"))
    handlers.fails.update({total: [handlers.away()] for total in range(100)})
    with pytest.raises(SystemNotReady, match="Run the same command again"):
        called(scene)


def test_what_goes_to_another_topic_is_said() -> None:
    comparison = called(played(handled("elsewhere")))
    assert all_identical(comparison)
    assert comparison.notes == ["what the handler sends to other is not compared: only `to` is read"]


def test_without_the_option_it_is_said_that_handlers_are_not_called() -> None:
    scene = played(handled("result"))
    made = len(handlers.calls)
    assert scene.shadow().notes == [f"the handler {HERE}:result is not called: what it sends is not compared"]
    assert len(handlers.calls) == made


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        (replace(handled("result"), history=""), "needs the key `history`"),
        (handled("book_batch", session=True), "has session: true, so it would write to the store again"),
        (handled("result", concurrency=2), "has concurrency"),
        (replace(handled("forward"), history="", aggregation=None), "gets single messages"),
        (rule(7), "has no handler that --call-handlers could call"),
        (handled("schedules"), "schedules or cancels timeouts"),
    ],
)
def test_what_cannot_be_called_is_refused(agent: Agent, why: str) -> None:
    scene = played(agent, records=40)
    with pytest.raises(ConfigurationError, match=why):
        called(scene)


# Rewind


def collecting(count: int, function: str = "whole", **how: Any) -> Agent:
    handler = Handler((f"{HERE}:{function}",), **how)
    return replace(rule(count), handler=handler, history="history")


class HandledCorrector(Corrector):
    """Runs replays with --call-handlers."""

    def rewinding(self, store: Any = None, calls: bool = True) -> Rewinding:
        self.runs += 1
        return Rewinding(
            App("app", "memory://", (self.scene.agent,)),
            self.rule,
            store or self.scene.store,
            LogHistory(self.scene.log, "app.sums"),
            _Flushed(self.scene.log),
            NoWatch(),
            Person("me", "", f"replay-{self.runs}"),
            calls,
        )


@pytest.mark.parametrize("count", [7, 4, 11])
@pytest.mark.parametrize("seed", range(4))
def test_each_record_of_a_sent_message_is_in_one_correction_whatever_kills_the_command(count: int, seed: int) -> None:
    scene, chance = play(collecting(7), seed), random.Random(seed)
    corrector = HandledCorrector(scene, collecting(count))
    sent = [len(part) for topic in ("out", "dead", "history") for part in scene.log.topics[topic]]
    for _ in range(40):
        try:
            corrector.run(store=MortalStore(scene.store, chance.randint(1, 9), chance.random() < 0.5))
            break
        except Killed:
            if [replay.state for replay in replays.read(scene.store, "app", "sums")] == ["done"]:
                break
    else:
        corrector.run()
    assert list(problems(corrector)) == []
    assert [len(part) for topic in ("out", "dead", "history") for part in scene.log.topics[topic]] == sent
    assert {replay for _, replay in handlers.calls} == {False, True}


def test_a_group_of_which_the_handler_sends_nothing_now_is_replaced_by_a_document_with_count_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = play(collecting(7), 2)
    monkeypatch.setattr(handlers, "whole", lambda batch: None)
    corrector = HandledCorrector(scene, collecting(7))
    corrector.run()
    made = corrector.documents()
    assert {ids for _, ids, _ in made.values()} == {()}
    assert {name for _, _, replaced in made.values() for name in replaced} == set(results(scene))
    assert len(made) == len(results(scene)) > 10


def test_a_group_that_was_dropped_goes_to_no_handler() -> None:
    scene = Scene(collecting(7), 2)
    for number, key in enumerate("aabba"):
        scene.feed(key, {"id": number, "amount": 1})
    scene.turn()
    group = next(group for group in open_groups(scene.store, "app", scene.agent) if group.key == b"a")
    drop(scene.store, group, scene.agent, Person("anne", "", "token-of-anne"), LogProducer(scene.log))
    scene.driver.later(6.0)
    scene.settle()
    corrector = HandledCorrector(scene, collecting(7))
    corrector.run()
    assert [(key, ids) for key, ids, _ in corrector.documents().values()] == [("b", (2, 3))]
    assert [replay for _, replay in handlers.calls].count(True) == 1
    assert figures(called(scene)) == {"identical": 2}


@pytest.mark.parametrize("policy", ["discard", "dead-letter"])
def test_a_group_that_expires_without_a_result_goes_to_no_handler(policy: Literal["discard", "dead-letter"]) -> None:
    agent = collecting(4)
    scene = play(replace(agent, aggregation=replace(agent.aggregation or Aggregation(), on_timeout=policy)), 3)
    live = len({id for id, _ in handlers.calls})
    HandledCorrector(scene, scene.agent).run()

    assert 10 < live == [replay for _, replay in handlers.calls].count(True)
    assert all_identical(called(scene))
    heads = [dict(message.h) for part in scene.log.topics["history"] for message in part]
    ended = {head["sluicegate-id"]: head["sluicegate-reason"] for head in heads}
    assert [*ended.values()].count(b"count") == live < len(ended)


def test_the_id_of_a_replay_is_its_own() -> None:
    scene = play(collecting(7), 2)
    HandledCorrector(scene, collecting(7)).run()
    live, again = ({id for id, replay in handlers.calls if replay is which} for which in (False, True))
    assert len(live) == len(again) > 10
    assert live.isdisjoint(again)


def test_a_handler_that_gives_up_ends_the_replay_and_the_same_command_goes_on() -> None:
    corrector = HandledCorrector(play(collecting(7, attempts=1), 2), collecting(7, attempts=1))
    handlers.fails.update({count: [ValueError("no")] for count in (5,)})
    with pytest.raises(ConfigurationError, match="Correct the handler, and run the same command again"):
        corrector.run()
    corrector.run()
    assert list(problems(corrector)) == []


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        (collecting(7, "elsewhere"), "sends to the topic other, which is not the `to` of its agent"),
        (replace(collecting(7), to=None), "its handler has no `to`"),
        (replace(collecting(7), history=""), "needs the key `history`"),
        (rule(7), "has no handler"),
    ],
)
def test_what_cannot_be_corrected_is_refused(agent: Agent, why: str) -> None:
    corrector = HandledCorrector(play(collecting(7), 2, 60), agent, deployed=False)
    with pytest.raises(ConfigurationError, match=why):
        corrector.run()
    assert corrector.sent() == []


def test_without_the_option_a_handler_is_refused() -> None:
    corrector = HandledCorrector(play(collecting(7), 2, 60), collecting(7))
    with pytest.raises(ConfigurationError, match="which is not called here"):
        corrector.rewinding(calls=False).run(ALL, "mended")
