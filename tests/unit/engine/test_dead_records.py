"""`dead retry` believes a letter only if it names an input of its agent, and the record that stands there."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from sluicegate.streams.agent import App
from sluicegate.streams.contracts.headers import DEAD_CUT as CUT
from sluicegate.streams.contracts.headers import DEAD_DIGEST as DIGEST
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.contracts.values import OutboxRow
from sluicegate.streams.operations.dead import dead_records
from sluicegate.streams.operations.dead.dead_letters import Letter, letters
from sluicegate.streams.outbox.sizes import digest
from tests.unit.engine.driver import Log
from tests.unit.engine.scene import an_agent
from tests.unit.engine.test_dead_letters import InLog

AGENTS = an_agent(), replace(an_agent(), name="sums.left", topics=("legs",)), replace(an_agent(), name="other")
APP = App("app", "memory://", AGENTS)


class Counted(InLog):
    """Counts how often reading began."""

    begun = 0

    def since(self, starts: Mapping[TopicPartition, int]) -> Iterable[Record]:
        self.begun += 1
        return super().since(starts)


def a_letter(topic: str = "in", offset: int = 0, value: bytes = b"0", **more: object) -> Letter:
    place = Letter("id", "sums", topic, 0, offset, None, False, "handler", "r", "e", "1", 0.0, b"k", value, [])
    return place._replace(**more)  # type: ignore[arg-type]


@pytest.fixture
def source(log: Log) -> Counted:
    log.topics["legs"], log.topics["else"] = [[]], [[]]
    for topic in ("in", "legs", "else"):
        for number in range(3):
            log.append(topic, 0, b"k", b"%d" % number, [("h", b"own"), ("sluicegate-id", b"i")])
    return Counted(log)


FORGED = {
    "another topic": a_letter("else"),
    "a topic that another agent reads": a_letter("legs"),
    "an agent that re-keys for no one": a_letter(rekeyed_by="other"),
    "an agent that is not there": a_letter(rekeyed_by="sums.gone"),
    "another value": a_letter(value=b"evil"),
    "another key": a_letter(key=b"evil"),
    "another record": a_letter(offset=1),
    "a record to come": a_letter(offset=3, value=b"3"),
    "an offset below all": a_letter(offset=-1),
    "no partition": a_letter(partition=9),
    "another digest": a_letter(headers=[(CUT, b"value"), (DIGEST, digest(b"evil"))]),
    "a group of another topic": a_letter("else", whole=True),
    "an item of another topic": a_letter("else", item=1),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=list(FORGED))
def test_a_letter_that_names_no_record_of_its_agent_is_left_out_with_the_reason(
    forged: Letter, source: Counted
) -> None:
    good = a_letter(offset=2, value=b"2")
    judgement = dead_records.judged(APP, [forged, good], lambda: source)
    assert [dead_records.place(letter) for letter in judgement.letters] == [("in", 0, 2)]
    [(name, why)] = judgement.left_out
    assert name == forged.place
    assert why


def test_the_record_of_the_topic_is_sent_and_not_what_the_letter_says(source: Counted) -> None:
    cut = a_letter(value=b"", key=None, headers=[(CUT, b"value key"), (DIGEST, digest(b"0"))])
    more = a_letter("legs", 1, b"1", rekeyed_by="sums.left", headers=[("h", b"forged")])
    judgement = dead_records.judged(APP, [cut, more], lambda: source)
    kept = [("h", b"own"), ("dead-sluicegate-id", b"i")]
    assert [(letter.key, letter.value, letter.headers) for letter in judgement.letters] == [
        (b"k", b"0", kept),
        (b"k", b"1", kept),
    ]


def test_a_record_that_is_gone_and_what_is_no_record_are_judged_by_their_topic(log: Log, source: Counted) -> None:
    del log.topics["in"][0][0]
    letters = [a_letter(), a_letter(id="g", whole=True), a_letter(item=0, value=b"evil")]
    assert dead_records.judged(APP, letters, lambda: source) == (letters, [])


def test_records_that_are_near_are_read_together_and_those_far_apart_are_not_read_through(
    log: Log, source: Counted
) -> None:
    for number in range(3, 5_000):
        log.append("in", 0, b"k", b"%d" % number)
    letters = [a_letter(offset=n, value=b"%d" % n) for n in (1, 2, 3, 4_500, 4_510)]
    assert len(dead_records.judged(APP, letters, lambda: source).letters) == 5
    assert source.begun == 2


UNPROVEN = {
    "a group": a_letter(whole=True, proven=False),
    "an item of a group": a_letter(item=0, value=b"evil", proven=False),
    "a record that is gone": a_letter(value=b"evil", proven=False),
}


@pytest.mark.parametrize("letter", UNPROVEN.values(), ids=list(UNPROVEN))
def test_what_cannot_be_compared_needs_a_mac_or_the_word_of_the_operator(
    letter: Letter, log: Log, source: Counted
) -> None:
    del log.topics["in"][0][0]
    judgement = dead_records.judged(APP, [letter], lambda: source)
    assert (judgement.letters, [why for _, why in judgement.left_out]) == ([], [dead_records.UNPROVEN])
    assert dead_records.judged(APP, [letter], lambda: source, unproven=True).letters == [letter._replace(proven=True)]
    proven = letter._replace(proven=True)
    assert dead_records.judged(APP, [proven], lambda: source).letters == [proven]


def test_a_forged_copy_of_a_letter_has_its_record_sent_once(source: Counted) -> None:
    copy, good = a_letter(proven=False), a_letter()
    for both in ([copy, good], [good, copy]):
        [kept] = dead_records.judged(APP, both, lambda: source).letters
        assert kept.proven
    assert len(dead_records.judged(APP, [copy], lambda: source).letters) == 1


def test_a_letter_with_the_id_of_a_genuine_one_does_not_stand_for_it(log: Log) -> None:
    """Whoever may write to the dead-letter topic can use the id before the genuine letter comes."""
    says = {"app": "app", "agent": "sums", "topic": "in", "partition": 0, "offset": 0}
    says |= {"stage": "handler", "reason": "r", "error": "e", "attempts": 1}
    fields = [
        ("sluicegate-id", b"i"),
        *((f"sluicegate-dead-{name}", str(text).encode()) for name, text in says.items()),
    ]
    mac = Mac("app", (b"k" * 32,))
    [row] = mac.signed([OutboxRow(1, "", "i", "dead", 0, b"k", b"own", fields)])
    signed = row.headers
    for value, headers in ((b"evil", fields), (b"own", list(signed)), (b"evil", list(signed)), (b"own", list(signed))):
        log.append("dead", 0, b"k", value, headers)
    seen = [(letter.value, letter.proven) for letter in letters(log.topics["dead"][0], "app", ["sums"], mac)]
    assert seen == [(b"evil", False), (b"own", True)]
