"""The checks of a claim, one by one; through the worker they are in test_gaps."""

from typing import Any

import pytest

from sluicegate.streams.agent import Aggregation
from sluicegate.streams.contracts.values import Claim, Partition, Source, TopicFacts
from sluicegate.streams.errors import (
    Halt,
    LogTruncated,
    PartitionsChanged,
    RetentionPassed,
    StoreRewound,
    StoreSwapped,
    StoreWiped,
    TopicRecreated,
)
from sluicegate.streams.ownership.checks import ClaimVersion, check_claim, check_low, check_partitions, informational

PLACE = Partition("app", "sums", "in", 0)


def claim(**changed: Any) -> Claim:
    fields: dict[str, Any] = {
        "partition": PLACE,
        "token": "t",
        "version": 9,
        "offset": 50,
        "epoch": -1,
        "number": 0,
        "first": 1,
        "last": 0,
        "source": Source("id", 2, "rule"),
        "trying": None,
        "incarnation": "store",
        "member": "m",
        "store_time": 0.0,
    }
    return Claim(**fields | changed)


def facts(**changed: Any) -> TopicFacts:
    return TopicFacts("id", 2, 0, 100, -1, "")._replace(**changed)


OURS = informational(claim())
BAD: list[tuple[dict[str, Any], dict[str, Any], type[Halt]]] = [
    ({}, {"low": 51}, RetentionPassed),
    ({}, {"high": 49}, LogTruncated),
    ({}, {"topic_id": "other"}, TopicRecreated),
    ({"offset": -1}, {"metadata": OURS, "committed": 50}, StoreWiped),
    ({"incarnation": "other"}, {"metadata": OURS, "committed": 50}, StoreSwapped),
    ({}, {"metadata": OURS, "committed": 51}, StoreRewound),
    ({"version": 8}, {"metadata": OURS, "committed": 50}, StoreRewound),
]


@pytest.mark.parametrize(
    ("claimed", "facts_of_kafka", "error"), BAD, ids=[f"{e.code}-{n}" for n, (_, _, e) in enumerate(BAD)]
)
def test_what_cannot_go_on_has_its_own_error(
    claimed: dict[str, Any], facts_of_kafka: dict[str, Any], error: type[Halt]
) -> None:
    with pytest.raises(error):
        check_claim(claim(**claimed), facts(**facts_of_kafka))


def test_a_topic_that_was_made_again_says_what_to_do() -> None:
    with pytest.raises(TopicRecreated, match=r"embedded broker .* delete the store .*; on a real broker, .*accept-gap"):
        check_claim(claim(), facts(topic_id="other"))


@pytest.mark.parametrize(
    ("claimed", "facts_of_kafka"),
    [
        ({}, {}),
        ({}, {"low": 50}),
        ({}, {"high": 50}),
        ({"source": None}, {}),
        ({}, {"topic_id": ""}),
        ({"offset": -1}, {"low": 70}),
        ({}, {"metadata": OURS, "committed": 50}),
        ({}, {"metadata": OURS, "committed": 3}),
        ({"version": 12}, {"metadata": OURS, "committed": 50}),
    ],
)
def test_what_is_right_goes_on(claimed: dict[str, Any], facts_of_kafka: dict[str, Any]) -> None:
    check_claim(claim(**claimed), facts(**facts_of_kafka))


@pytest.mark.parametrize(
    "metadata",
    ["somebody else's", "{", "[]", "null", '["sluicegate","1","x"]', '["sluicegate",1,7]', '["other",1,"x"]'],
)
def test_metadata_that_is_not_ours_says_nothing(metadata: str) -> None:
    check_claim(claim(offset=-1), facts(metadata=metadata, committed=99))


def test_a_version_that_this_process_has_seen_must_not_be_gone() -> None:
    with pytest.raises(StoreRewound):
        check_claim(claim(), facts(), ClaimVersion(0, 10))
    check_claim(claim(), facts(), ClaimVersion(0, 9))


def by(lineage: str, since: int, version: int = 9) -> Claim:
    return claim(version=version, source=Source("id", 2, "rule", 2, 0, since, lineage))


def test_a_version_that_a_claim_of_before_the_rewind_reached_again_is_not_what_was_seen() -> None:
    """`one` had begun at version 5; `two` took over at 8 and made version 9, which is lost: `one` goes on."""
    knowledge = facts(metadata=informational(by("two", 9)), committed=50)
    for version in (9, 12):
        with pytest.raises(StoreRewound):
            check_claim(by("one", 5, version), knowledge)
        with pytest.raises(StoreRewound):
            check_claim(by("one", 9, version), facts(), ClaimVersion(0, 9, "two"))


def test_a_claim_that_began_behind_what_was_seen_goes_on() -> None:
    knowledge = facts(metadata=informational(by("two", 9)), committed=50)
    for row in (by("two", 9), by("two", 9, 12), by("three", 10, 10), by("three", 12, 15)):
        check_claim(row, knowledge, ClaimVersion(0, 9, "two"))


@pytest.mark.parametrize(
    "metadata", ['["sluicegate",9,"store"]', '["sluicegate",9,"store",0]', informational(by("two", 9))]
)
def test_what_older_programs_wrote_tells_by_its_version_alone(metadata: str) -> None:
    check_claim(claim(), facts(metadata=metadata, committed=50))
    with pytest.raises(StoreRewound):
        check_claim(claim(version=8), facts(metadata=metadata, committed=50))


def test_added_partitions_are_seen_and_refused_only_when_groups_could_never_end() -> None:
    timed, counted = Aggregation(count=3, since_last=1.0), Aggregation(count=3)
    source = Source("id", 2, "rule")
    assert not check_partitions(source, facts(), counted, 5)
    assert not check_partitions(None, facts(partitions=9), counted, 5)
    assert check_partitions(source, facts(partitions=3), timed, 5)
    assert check_partitions(source, facts(partitions=3), counted, 0)
    with pytest.raises(PartitionsChanged):
        check_partitions(source, facts(partitions=3), counted, 1)


def test_a_first_record_above_the_offset_is_a_gap_only_where_the_topic_begins_above_it() -> None:
    check_low(facts(low=50), 50, 53)
    with pytest.raises(RetentionPassed, match="the topic begins at 51, the first record is 53"):
        check_low(facts(low=51), 50, 53)
