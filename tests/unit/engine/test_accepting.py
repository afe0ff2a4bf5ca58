"""An accepted gap: the live worker that halted goes on, nothing new is taken for a repeat, and what is gone is said and
forgotten."""

import copy
import json
from typing import Any

import pytest

from sluicegate.streams.contracts.values import Partition, Source
from sluicegate.streams.errors import ConfigurationError, Fenced
from sluicegate.streams.journal import journal
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.accepting import Gap, Reported, accept, preview
from sluicegate.streams.operations.groups.contents import contents_of
from tests.unit.engine.driver import Driver, ManualClock, header, memory
from tests.unit.engine.scene import a_log, an_agent, feed, shown
from tests.unit.engine.test_gaps import HARMS, PLACE, Harm, earlier, retention, rewind, swap, truncation, wipe

persons = (Person("ann", "seen", f"hand {n}") for n in range(1_000_000))
NEEDS_FORGETTING = ("topic-recreated", "changelog-incomplete", "log-truncated")


class Scene:
    """Eight records of two keys, harm, and a worker that halted at it."""

    def __init__(self, harm: Harm, count: int = 3, records: int = 8) -> None:
        self.clock, self.log = ManualClock(), a_log()
        self.store, self.agent = memory(self.clock), an_agent(count=count)
        feed(self.log, *[("ab"[n % 2], n) for n in range(4)])
        first = Driver(self.agent, self.store, self.log, self.clock).give(0).turns(3)
        earlier[:] = [copy.deepcopy(self.store._rows[PLACE])]
        feed(self.log, *[("ab"[n % 2], n) for n in range(4, records)])
        first.later(1).turns(4)
        harm(self.log, self.store)
        self.worker = Driver(self.agent, self.store, self.log, self.clock).give(0).turns(3).later(6).turns(2)

    def facts(self) -> Any:
        return self.worker.input.facts("in", 0)

    def accepted(self, forget: bool = True, truncated: bool = False) -> Gap | None:
        return accept(self.store, self.agent, PLACE, self.facts, next(persons), forget, Reported(truncated))

    @property
    def state(self) -> tuple[str, str | None]:
        return shown(self.worker)[1]["in", 0]

    def goes_on(self) -> list[tuple[str, int]]:
        """Key and total of the results of what comes now."""
        for _ in range(3):  # an idle one looks, is fenced, and claims again
            self.worker.later(6).turns(4)
        before = len(self.log.topics["out"][0])
        feed(self.log, *[("c", 100)] * 3)
        self.worker.turns(4).later(6).turns(2)
        return [
            (document["key"], document["total"])
            for m in self.log.topics["out"][0][before:]
            for document in [json.loads(m.v or b"")]
        ]

    def mistaken(self) -> list[str | None]:
        """Ids under which a receiver found two different contents: of the second it would think that it is a repeat."""
        results: dict[str | None, set[bytes | None]] = {}
        for message in self.log.topics["out"][0]:
            results.setdefault(header(message, "sluicegate-id"), set()).add(message.v)
        return [id for id, values in results.items() if len(values) > 1]


def _name(value: object) -> str:
    return str(getattr(value, "__name__", value))


@pytest.mark.parametrize(("harm", "code"), [harm for harm in HARMS if harm[0] is not swap], ids=_name)
def test_the_worker_that_halted_goes_on(harm: Harm, code: str) -> None:
    scene = Scene(harm)
    assert scene.state == ("halted", code)
    gap = scene.accepted()
    assert gap is not None
    assert gap.error.code == code
    results = scene.goes_on()
    assert scene.state == ("running", None)
    assert ("c", 300) in results
    assert scene.mistaken() == []
    view = scene.store.read(PLACE)
    assert view is not None
    [change] = contents_of(scene.agent, PLACE, view).amended
    assert (change.who, change.what, change.why, change.key.startswith(f"{code}: it goes on at offset ")) == (
        "ann",
        "accept-gap",
        "seen",
        True,
    )
    assert preview(scene.store, scene.agent, PLACE, scene.facts) is None
    restarted = Driver(scene.agent, scene.store, scene.log, scene.clock).give(0).turns(4)
    assert shown(restarted)[1]["in", 0] == ("running", None)


@pytest.mark.parametrize(("harm", "count"), [(truncation, 2), (rewind, 3)])
def test_twin_without_an_era_in_the_ids_new_results_are_taken_for_repeats(
    monkeypatch: pytest.MonkeyPatch, harm: Harm, count: int
) -> None:
    def spoiled() -> list[str | None]:
        scene = Scene(harm, count)
        scene.accepted()
        scene.worker.later(6).turns(4)
        feed(scene.log, *[("ab"[n % 2], 1000 + n) for n in range(12)])
        scene.worker.turns(6).later(40).turns(6)
        return scene.mistaken()

    assert spoiled() == []
    monkeypatch.setattr(Source, "name", property(lambda source: source.topic_id))
    assert spoiled() != []


def test_open_groups_stay_where_their_places_do_not_come_again() -> None:
    scene = Scene(retention, count=5)
    gap = scene.accepted(forget=False)
    assert (gap.offset, gap.era, bool(gap.forgets)) == (11, 0, False) if gap else False
    assert ("a", 0 + 2 + 4 + 6) in [(key, total) for key, total in [*scene.goes_on(), *after_timeout(scene)]]


def after_timeout(scene: Scene) -> list[tuple[str, int]]:
    scene.worker.later(40).turns(6)
    return [
        (document["key"], document["total"])
        for m in scene.log.topics["out"][0]
        for document in [json.loads(m.v or b"")]
    ]


def test_of_a_truncated_topic_only_groups_that_began_behind_its_end_are_forgotten() -> None:
    scene = Scene(truncation, count=6, records=9)
    view = scene.store.read(PLACE)
    assert view is not None
    assert sorted(contents_of(scene.agent, PLACE, view).groups.states) == [b"a", b"b"]
    gap = scene.accepted()
    assert (gap.offset, gap.era, bool(gap.forgets)) == (3, 1, False) if gap else False


@pytest.mark.parametrize(("harm", "code"), [(h, c) for h, c in HARMS if c in NEEDS_FORGETTING])
def test_what_would_be_forgotten_must_be_said(harm: Harm, code: str) -> None:
    scene = Scene(harm)
    before = scene.store.read(PLACE)
    with pytest.raises(ConfigurationError, match=r"--forget accepts that"):
        scene.accepted(forget=False)
    after = scene.store.read(PLACE)
    assert before is not None
    assert after is not None
    assert (before.claim.offset, before.claim.version, before.entries) == (
        after.claim.offset,
        after.claim.version,
        after.entries,
    )
    scene.worker.later(6).turns(4)
    assert scene.state == ("halted", code)


def test_added_partitions_are_accepted_with_their_groups_open() -> None:
    clock, log = ManualClock(), a_log()
    store, agent = memory(clock), an_agent(since_first=None)
    feed(log, ("a", 1))
    Driver(agent, store, log, clock).give(0).turns(3)
    log.topics["in"].append([])
    worker = Driver(agent, store, log, clock).give(0).turns(3)
    assert shown(worker)[1]["in", 0] == ("halted", "partitions-changed")
    worker.later(1)
    acceptance = accept(store, agent, PLACE, lambda: worker.input.facts("in", 0), next(persons))
    assert acceptance is not None
    worker.later(6).turns(4)
    feed(log, ("a", 2), ("a", 3))
    worker.turns(4)
    assert [json.loads(m.v or b"")["total"] for m in log.topics["out"][0]] == [6]


def test_a_row_of_another_store_is_refused() -> None:
    scene = Scene(swap)
    with pytest.raises(ConfigurationError, match="another incarnation"):
        scene.accepted()


def test_a_history_that_only_the_broker_knows_is_accepted_on_the_word_of_a_person() -> None:
    scene = Scene(lambda log, store: None)
    assert scene.accepted() is None
    gap = scene.accepted(truncated=True)
    assert (gap.error.code, gap.offset, gap.era) == ("log-truncated", 8, 1) if gap else False
    assert ("c", 300) in scene.goes_on()


def test_a_healthy_partition_is_left_as_it_is() -> None:
    scene = Scene(lambda log, store: None)
    assert preview(scene.store, scene.agent, PLACE, scene.facts) is None
    assert scene.accepted() is None
    assert ("c", 300) in scene.goes_on()
    nobody = Partition("app", "sums", "in", 7)
    scene.log.topics["in"] += [[]] * 7
    assert preview(scene.store, scene.agent, nobody, lambda: scene.worker.input.facts("in", 7)) is None


def test_a_store_that_goes_back_behind_the_acceptance_is_loud() -> None:
    scene = Scene(wipe)
    scene.accepted()
    kept = copy.deepcopy(earlier)
    assert ("c", 300) in scene.goes_on()
    scene.store._rows[PLACE] = kept[0]
    later = Driver(scene.agent, scene.store, scene.log, scene.clock).give(0).turns(3)
    assert shown(later)[1]["in", 0] == ("halted", "store-rewound")


def test_somebody_who_claims_in_between_wins_and_nothing_is_accepted() -> None:
    scene = Scene(retention)

    def claims() -> Any:
        scene.store.claim(PLACE, "other", "member")
        return scene.facts()

    with pytest.raises(Fenced):
        accept(scene.store, scene.agent, PLACE, claims, next(persons))
    scene.worker.later(6).turns(4)
    assert scene.state == ("halted", "retention-passed")


def test_killed_before_the_workers_are_told_the_same_call_tells_them(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(retention)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(journal, "note", dies)
        with pytest.raises(KeyboardInterrupt):
            scene.accepted()
    scene.worker.later(6).turns(4)
    assert scene.state == ("halted", "retention-passed")
    assert scene.accepted() is None
    assert ("c", 300) in scene.goes_on()
