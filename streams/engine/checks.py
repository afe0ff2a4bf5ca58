"""What is checked between a claim and its first record: gaps are loud (protocol.md, Claim)."""

from typing import Any

import msgspec

from streams.agent import Aggregation
from streams.errors import LogTruncated, PartitionsChanged, RetentionPassed, StoreRewound, StoreSwapped, StoreWiped, TopicRecreated
from streams.values import Claim, Source, TopicFacts

MAKER = "sluicegate"
LOST_WRITES = (
    "the store lost writes that it had acknowledged (restored backup, fail-over, weak fsync); "
    "restore them, or start the agent under another name"
)


def informational(claim: Claim) -> str:
    """The text of Kafka's informational commit: which store stands behind this offset."""
    return msgspec.json.encode([MAKER, claim.version, claim.incarnation]).decode()


def check_claim(claim: Claim, facts: TopicFacts, known: int = 0) -> None:
    """Raises the Halt that says which promise could not be kept by going on. `known` is a version that this process saw."""
    _check_topic(claim, facts)
    _check_store(claim, facts, known)
    if claim.offset < 0:
        return
    if claim.offset < facts.low:
        raise RetentionPassed(
            f"the next offset is {claim.offset}, the topic begins at {facts.low}: {facts.low - claim.offset} records were deleted before "
            "they were read; longer retention prevents it"
        )
    if claim.offset > facts.high:
        raise LogTruncated(f"the next offset is {claim.offset}, the topic ends at {facts.high}: records that were read are gone from it")


def _check_topic(claim: Claim, facts: TopicFacts) -> None:
    source = claim.source
    if source is not None and source.topic_id and facts.topic_id and source.topic_id != facts.topic_id:
        raise TopicRecreated(f"the topic was deleted and made again (id {source.topic_id}, now {facts.topic_id}): its offsets begin anew")


def _check_store(claim: Claim, facts: TopicFacts, known: int) -> None:
    version, incarnation = _ours(facts.metadata)
    if incarnation is None:
        if claim.version < known:
            raise StoreRewound(f"the store says version {claim.version}, this process has seen {known}: {LOST_WRITES}")
        return
    if claim.offset < 0:
        raise StoreWiped(
            f"this group had committed up to offset {facts.committed}, but the store knows nothing of the partition: it was wiped, "
            "or it is another store; restore it, or start the agent under a new name"
        )
    if incarnation != claim.incarnation:
        raise StoreSwapped("the store at this address is not the one that this group committed to; check the URL in store:")
    if facts.committed > claim.offset or max(version, known) > claim.version:
        raise StoreRewound(
            f"the store says offset {claim.offset} and version {claim.version}, Kafka was told {facts.committed} and "
            f"{max(version, known)}: {LOST_WRITES}"
        )


def _ours(metadata: str) -> tuple[int, str | None]:
    """Version and incarnation in an informational commit of ours; (0, None) for anything else."""
    try:
        found: Any = msgspec.json.decode(metadata) if metadata else None
    except msgspec.DecodeError:
        return 0, None
    if isinstance(found, list) and len(found) == 3 and found[0] == MAKER and isinstance(found[1], int) and isinstance(found[2], str):
        return found[1], found[2]
    return 0, None


def maker_of(metadata: str) -> str | None:
    """The incarnation of the store behind an informational commit, None for one that is not ours."""
    return _ours(metadata)[1]


def check_partitions(source: Source | None, facts: TopicFacts, aggregation: Aggregation, open_groups: int) -> bool:
    """Were input partitions added since the last commit? Raises PartitionsChanged when open groups whose keys moved away
    could never end."""
    if source is None or not source.partition_count or facts.partitions <= source.partition_count:
        return False
    if open_groups and aggregation.since_first is None and aggregation.since_last is None:
        raise PartitionsChanged(
            f"the topic has {facts.partitions} partitions, it had {source.partition_count}: keys moved, and {open_groups} open groups may "
            "never be completed; give the aggregation a timeout, they then end by it"
        )
    return True


def check_low(facts: TopicFacts, offset: int, first: int) -> None:
    """Records were asked for from `offset` and came from `first`. Offsets without a record are normal where transactions or compaction
    left them; a topic that begins above ours lost records. Raises RetentionPassed."""
    if facts.low > offset:
        raise RetentionPassed(f"the next offset is {offset}, the topic begins at {facts.low}, the first record is {first}")
