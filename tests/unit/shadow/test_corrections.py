"""Corrections of what an agent published: each record once, each result replaced, whatever interrupts the replay."""

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from sluicegate.streams.agent import Agent, App, Reducer
from sluicegate.streams.cli.replaying.rewind import summary
from sluicegate.streams.contracts.values import Changes, Claim, Partition
from sluicegate.streams.errors import ConfigurationError, Fenced
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.replaying import replays
from sluicegate.streams.operations.replaying.replays import Replay
from sluicegate.streams.operations.replaying.rewinding import Rewinding, Writer
from sluicegate.streams.operations.replaying.shadowing import ShadowRange
from sluicegate.streams.rules import rule_of
from sluicegate.streams.rules.versions import Deployed, RuleVersion
from sluicegate.streams.shadow.corrections import Corrections
from sluicegate.streams.testing.log import LogProducer
from sluicegate.streams.versions import catalogue
from tests.unit.engine.rebuilding import LogHistory
from tests.unit.engine.scene import an_agent
from tests.unit.shadow.scene import ALL, NoWatch, Scene


class Killed(BaseException):
    """The command dies."""


class MortalStore:
    """A store that kills the command at its commit number `at`, before or after the commit."""

    def __init__(self, store: Any, at: int, after: bool) -> None:
        self._store, self._left, self._after = store, at, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, claim: Claim, changes: Changes) -> Claim:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Killed
        done: Claim = self._store.commit(claim, changes)
        if self._left == 0:
            raise Killed
        return done


class Corrector:
    """Runs replays of what a scene published. `deployed`: the store knows the rule that made the results."""

    def __init__(self, scene: Scene, rule: Agent, deployed: bool = True) -> None:
        self.scene, self.rule, self.runs = scene, rule, 0
        scene.log.create("mended", 2)
        if deployed:
            made = RuleVersion(1, rule_of(scene.agent).digest, "finish", 0.0, "me", "", scene.agent)
            catalogue.deploy(scene.store, "app", "first", "me", lambda _found, _at: {"sums": Deployed((made,))})

    def run(self, wanted: ShadowRange = ALL, store: Any = None, into: str = "mended") -> Replay:
        return self.rewinding(store).run(wanted, into)

    def rewinding(self, store: Any = None) -> Rewinding:
        self.runs += 1
        live = self.scene.agent
        output = _Flushed(self.scene.log)
        return Rewinding(
            App("app", "memory://", (live,)),
            self.rule,
            store or self.scene.store,
            LogHistory(self.scene.log, "app.sums"),
            output,
            NoWatch(),
            Person("me", "", f"replay-{self.runs}"),
        )

    def sent(self) -> list[Any]:
        return [record for part in self.scene.log.topics["mended"] for record in part]

    def documents(self) -> dict[str, tuple[Any, ...]]:
        """By id: key, offsets of the records by their ids, replaced ids. Repeats of one id are alike."""
        ids = dict[str, tuple[Any, ...]]()
        for record in self.sent():
            texts = {name: value.decode() for name, value in record.headers()}
            value = json.loads(record.value())
            content = (value["key"], tuple(value.get("ids", ())), tuple(texts["sluicegate-replaces"].split(",")))
            assert ids.setdefault(texts["sluicegate-id"], content) == content
            assert value["count"] == len(content[1])
        return ids


class _Flushed(LogProducer):
    """`flush` passes the delivery reports on, as that of Kafka does."""

    def flush(self, timeout: float) -> int:
        return self.poll()


def rule(count: int | None, after: float | None = 5.0, **more: Any) -> Agent:
    made = an_agent(count=count, since_first=after, compute=(Reducer("ids", "collect", "id"),))
    return replace(made, **more)


def play(live: Agent, seed: int, records: int = 120) -> Scene:
    scene = Scene(live, 2, seed)
    number, chance = 0, scene.random
    while number < records:
        for _ in range(chance.randint(1, 9)):
            number += 1
            scene.feed(chance.choice("abcdef"), {"id": number, "amount": chance.randint(0, 9)}, chance.randrange(2))
        scene.turn()
        scene.driver.later(round(chance.uniform(0.05, 3.0), 3))
        scene.turn()
        if chance.random() < 0.1:
            scene.start()
            scene.turn(6)
    scene.settle()
    return scene


def results(scene: Scene) -> dict[str, tuple[str, list[int]]]:
    """By id: the key and the ids of the records."""
    outputs = {}
    for record in (record for part in scene.log.topics["out"] for record in part):
        headers, value = dict(record.headers()), json.loads(record.value())
        outputs[headers["sluicegate-id"].decode()] = (value["key"], value["ids"])
    return outputs


def problems(corrector: Corrector, least: int = 0) -> Iterator[str]:
    """What is wrong with the corrections of all results, by the input and the results alone."""
    amounts = {}
    for record in (record for part in corrector.scene.log.topics["in"] for record in part):
        value = json.loads(record.value())
        amounts[value["id"]] = value["amount"]
    live, made = results(corrector.scene), corrector.documents()
    holder = {item: name for name, (_, ids) in live.items() for item in ids}
    wanted = sorted(offset for offset in holder if amounts[offset] >= least)
    if sorted(item for _, ids, _ in made.values() for item in ids) != wanted:
        yield "a record of a result is in no correction, or in two, or another one is"
    if set(live) != {name for _, _, replaced in made.values() for name in replaced}:
        yield "a result is not replaced, or another one is"
    replacing = defaultdict[str, int](int)
    for key, ids, replaced in made.values():
        if not {holder[item] for item in ids} <= set(replaced):
            yield f"{ids} does not name all results that share records with it"
        if any(live[name][0] != key for name in replaced):
            yield f"{ids} replaces a result of another key"
        for name in replaced:
            replacing[name] += 1


CHANGES = {
    "the same rule": (rule(7), 0),
    "a lower count": (rule(4), 0),
    "a higher count": (rule(11), 0),
    "another timeout": (rule(7, 2.0), 0),
    "no timeout": (rule(5, None), 0),
    "fewer records": (rule(7, where="amount >= 4"), 4),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("seed", range(8))
def test_each_record_of_a_result_is_in_one_correction_whatever_kills_the_command(name: str, seed: int) -> None:
    mended, least = CHANGES[name]
    scene, chance = play(rule(7), seed), random.Random(seed)
    corrector = Corrector(scene, mended, deployed=seed % 4 > 0)
    before = [scene.store.read(Partition("app", "sums", "in", number)) for number in (0, 1)]
    for _ in range(30):
        store = MortalStore(scene.store, chance.randint(1, 9), chance.random() < 0.5)
        try:
            corrector.run(store=store)
            break
        except Killed:
            if [replay.state for replay in replays.read(scene.store, "app", "sums")] == ["done"]:
                break
    else:
        corrector.run()
    assert list(problems(corrector, least)) == []
    after = [scene.store.read(Partition("app", "sums", "in", number)) for number in (0, 1)]
    assert [(view.claim.version, view.entries) for view in after if view] == [
        (view.claim.version, view.entries) for view in before if view
    ]
    assert own_partitions(scene) == []


def test_the_judge_of_these_tests_finds_a_result_that_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Corrections, "_unreplaced", lambda self: iter(()))
    corrector = Corrector(play(rule(7), 1), rule(7, where="amount >= 9"))
    corrector.run()
    assert list(problems(corrector, 9)) == ["a result is not replaced, or another one is"]


def test_a_live_agent_that_goes_on_changes_no_correction() -> None:
    """What it publishes after the replay began belongs to no range of it."""
    quiet, busy = (Corrector(play(rule(7), 3), rule(4)) for _ in range(2))
    quiet.run()
    with pytest.raises(Killed):
        busy.run(store=MortalStore(busy.scene.store, 9, True))
    for number in range(200, 300):
        busy.scene.feed("abcdef"[number % 6], {"id": number, "amount": 1}, number % 2)
    busy.scene.turn()
    busy.scene.settle()
    busy.run()
    assert busy.documents() == quiet.documents()


def test_the_ends_of_a_range_cut_no_result() -> None:
    scene = play(rule(7), 5)
    corrector = Corrector(scene, rule(4))
    corrector.run(ShadowRange(since=20, until=45))
    whole = {
        name
        for part in scene.log.topics["out"]
        for record in part
        for headers in [dict(record.headers())]
        for name in [headers["sluicegate-id"].decode()]
        if int(headers["sluicegate-first"].rpartition(b"/")[2]) >= 20
        and int(headers["sluicegate-last"].rpartition(b"/")[2]) < 45
    }
    assert {name for _, _, replaced in corrector.documents().values() for name in replaced} == whole


def test_rows_that_were_sent_and_not_marked_are_not_sent_again() -> None:
    for at in range(3, 20):
        corrector = Corrector(play(rule(7), 2), rule(4))
        try:
            corrector.run(store=MortalStore(corrector.scene.store, at, False))
        except Killed:
            corrector.run()
        ids = [dict(record.headers())["sluicegate-id"] for record in corrector.sent()]
        assert len(ids) == len(set(ids)) > 20


def own_partitions(scene: Scene) -> list[Partition]:
    """The partitions of replays in the store."""
    return [partition for partition in scene.store.partitions("app") if partition.agent.startswith("sums~")]


def numbers(corrector: Corrector) -> list[int]:
    """How many corrections are committed, by partition."""
    views = map(corrector.scene.store.read, own_partitions(corrector.scene))
    return [view.claim.number for view in views if view is not None]


def test_a_replay_whose_results_have_changed_ends() -> None:
    corrector = Corrector(play(rule(7), 2), rule(4))
    with pytest.raises(Killed):
        corrector.run(store=MortalStore(corrector.scene.store, 8, True))
    made = numbers(corrector)
    corrector.scene.log.topics["out"][0].clear()
    corrector.scene.log.topics["out"][1].clear()
    with pytest.raises(ConfigurationError, match=r"--abandon 1 gives the replay up"):
        corrector.run()
    assert numbers(corrector) == made


def test_without_the_digest_it_would_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "_judge", lambda self: None)
    corrector = Corrector(play(rule(7), 2), rule(4))
    with pytest.raises(Killed):
        corrector.run(store=MortalStore(corrector.scene.store, 8, True))
    made = numbers(corrector)
    corrector.scene.log.topics["out"][0].clear()
    corrector.scene.log.topics["out"][1].clear()
    corrector.run()
    assert numbers(corrector) != made


def test_two_at_once_fence_each_other() -> None:
    corrector = Corrector(play(rule(7), 4), rule(4))
    with pytest.raises(Killed):
        corrector.run(store=MortalStore(corrector.scene.store, 7, True))
    claimed: list[Claim] = []

    class Overtaken(MortalStore):
        def claim(self, partition: Partition, token: str, member: str) -> Claim:
            made = corrector.scene.store.claim(partition, token, member)
            if "~" in partition.agent and partition.agent != "~" and not claimed:
                claimed.append(made)
                corrector.run()
            return made

    with pytest.raises(Fenced):
        corrector.run(store=Overtaken(corrector.scene.store, 0, True))
    assert list(problems(corrector)) == []


def late(corrector: Corrector) -> MortalStore:
    """A command that claims its first partition when another one has ended the replay."""
    done: list[Replay] = []

    class Late(MortalStore):
        def claim(self, partition: Partition, token: str, member: str) -> Claim:
            if partition.agent == "sums~1" and not done:
                done.append(corrector.run())
            return corrector.scene.store.claim(partition, token, member)

    return Late(corrector.scene.store, 0, True)


def copies(corrector: Corrector) -> int:
    return len(corrector.sent()) - len(corrector.documents())


def test_a_command_that_is_late_sends_nothing_again_and_leaves_nothing() -> None:
    corrector = Corrector(play(rule(7), 4), rule(4))
    with pytest.raises(Killed):
        corrector.run(store=MortalStore(corrector.scene.store, 7, True))
    with pytest.raises(Fenced, match="another command ended this replay"):
        corrector.run(store=late(corrector))
    assert copies(corrector) == 0
    assert own_partitions(corrector.scene) == []


def test_twin_without_a_look_at_the_list_it_sends_all_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rewinding, "_check_runs", lambda self, replay, claim: None)
    corrector = Corrector(play(rule(7), 4), rule(4))
    with pytest.raises(Killed):
        corrector.run(store=MortalStore(corrector.scene.store, 7, True))
    corrector.run(store=late(corrector))
    assert copies(corrector) > 0


def test_corrections_keep_to_the_schemas_of_results() -> None:
    corrector = Corrector(play(rule(7), 1), rule(3, None, where="amount >= 6"))
    corrector.run()
    schemas = [
        json.loads((files("sluicegate.schemas") / "documents" / f"{name}.schema.json").read_text())
        for name in ("result", "result-headers")
    ]
    reasons = set()
    for record in corrector.sent():
        texts = {name: value.decode() for name, value in record.headers()}
        for schema, document in zip(schemas, (json.loads(record.value()), texts), strict=True):
            jsonschema.validate(document, schema)
        reasons.add((texts["sluicegate-reason"], texts["sluicegate-count"] == "0"))
        assert texts["sluicegate-replay"] == "1"
        assert texts["sluicegate-rule"] == rule_of(corrector.rule).short
    assert reasons >= {("count", False), ("replay", False), ("replay", True)}


def test_an_abandoned_replay_leaves_no_rows_and_the_next_one_has_its_own_ids() -> None:
    corrector = Corrector(play(rule(7), 6), rule(4))
    with pytest.raises(Killed):
        corrector.run(store=MortalStore(corrector.scene.store, 8, False))
    first = set(corrector.documents())
    with pytest.raises(ConfigurationError, match="it has 1"):
        corrector.rewinding().abandon(2)
    corrector.rewinding().abandon(1)
    assert own_partitions(corrector.scene) == []
    for part in corrector.scene.log.topics["mended"]:
        part.clear()
    corrector.run()
    assert [replay.state for replay in replays.read(corrector.scene.store, "app", "sums")] == ["abandoned", "done"]
    assert first.isdisjoint(corrector.documents())
    assert list(problems(corrector)) == []


def test_the_command_says_how_many_records_are_refused() -> None:
    scene = play(rule(7), 1)
    scene.feed("a", b"no JSON")
    corrector = Corrector(scene, rule(7, where="amount.less >= 4"))
    [refused, last] = summary(corrector.run(), "sums")
    counted = sum(correction.refused for correction in replays.read(scene.store, "app", "sums")[0].corrected)
    assert counted > 0
    assert refused == f"{counted} records were refused by the rule. They are not written to dead again"
    assert last.startswith("replay 1 of sums: ")
