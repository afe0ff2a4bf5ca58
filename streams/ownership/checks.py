"""The checks between a claim and its first record. A gap halts the partition (docs/protocol.md, Claim)."""

from typing import Any, NamedTuple

import msgspec

from sluicegate.schemas.json import UNREADABLE
from sluicegate.streams.agent import Aggregation
from sluicegate.streams.contracts.values import Claim, Source, TopicFacts
from sluicegate.streams.errors import (
    LogTruncated,
    PartitionsChanged,
    RetentionPassed,
    StoreRewound,
    StoreSwapped,
    StoreWiped,
    TopicRecreated,
)
from sluicegate.streams.hints import command
from sluicegate.streams.wording import counted

MAKER = "sluicegate"
LOST_WRITES = (
    "the store lost writes that it had acknowledged (restored backup, fail-over, weak fsync); "
    "restore them, or accept that with `sluicegate accept-gap`"
)


class ClaimVersion(NamedTuple):
    """The newest state of a claim row that this process has seen: the era and the version, which never go back, and the
    last claim that had committed."""

    era: int = 0
    version: int = 0
    lineage: str = ""


NOTHING = ClaimVersion()


def seen(claim: Claim) -> ClaimVersion:
    return (
        ClaimVersion(claim.source.era, claim.version, claim.source.lineage)
        if claim.source
        else ClaimVersion(0, claim.version)
    )


def rewound(claim: Claim, known: ClaimVersion) -> bool:
    """Whether the row does not continue the state that was seen. A store that lost writes may reach the same version
    again, because a claim from before the loss continues to commit. Such a claim began to commit no later than the
    version seen (found by tests/model). Rows of older programs do not name that claim."""
    at = seen(claim)
    if (at.era, at.version) < (known.era, known.version):
        return True
    proven = known.lineage and at.lineage and at.era == known.era and at.lineage != known.lineage
    return bool(proven and claim.source and claim.source.since <= known.version)


def informational(claim: Claim) -> str:
    """The metadata of Kafka's informational commit. It identifies the store to which the offset belongs."""
    era, version, lineage = seen(claim)
    return msgspec.json.encode([MAKER, version, claim.incarnation, era, lineage]).decode()


def check_claim(claim: Claim, facts: TopicFacts, known: ClaimVersion = NOTHING) -> None:
    """Check the claim against Kafka and the known state. Raises the Halt for the guarantee that would be broken by
    continuing. `known` is the row as this process last saw it."""
    source = claim.source
    if source is not None and source.topic_id and facts.topic_id and source.topic_id != facts.topic_id:
        raise TopicRecreated(
            f"the topic was deleted and made again (id {source.topic_id}, now {facts.topic_id}): its offsets begin "
            "anew; the embedded broker makes its topics again with each run: delete the store of the previous run; "
            "on a real broker, `sluicegate accept-gap` goes on at the beginning of the new topic"
        )
    _check_store(claim, facts, known)
    if claim.offset < 0:
        return
    if claim.offset < facts.low:
        raise RetentionPassed(
            f"the next offset is {claim.offset}, the topic begins at {facts.low}: "
            f"{counted(facts.low - claim.offset, 'record')} deleted before being read; longer retention prevents it"
        )
    if (reached := _reached(claim)) > facts.high:
        raise LogTruncated(
            f"the next offset is {reached}, the topic ends at {facts.high}: records that were read are gone from it"
        )


def _reached(claim: Claim) -> int:
    """The offset up to which the partition was read. While records are read again, it is above the claim's offset."""
    return claim.offset if claim.source is None else max(claim.offset, claim.source.reached)


def _check_store(claim: Claim, facts: TopicFacts, known: ClaimVersion) -> None:
    stamp, incarnation = _ours(facts.metadata)
    at = seen(claim)
    if incarnation is None or stamp.era < at.era:  # the commit belongs to an earlier era, which an operator gave up
        if rewound(claim, known):
            raise StoreRewound(
                f"the store says version {_text(at)}, this process has seen {_text(known)}: {LOST_WRITES}"
            )
        return
    if claim.offset < 0:
        raise StoreWiped(
            f"this group had committed up to offset {facts.committed}, but the store knows nothing of the partition: "
            "it was wiped, "
            "or it is another store; restore the store, or have the state made again with "
            f"{command('replay FILE AGENT --rebuild')}; only `sluicegate accept-gap` gives up what was open"
        )
    if incarnation != claim.incarnation:
        raise StoreSwapped(
            "the store at this address is not the one that this group committed to; check the URL in store:"
        )
    if facts.committed > _reached(claim) or rewound(claim, stamp) or rewound(claim, known):
        raise StoreRewound(
            f"the store says offset {claim.offset} and version {_text(at)}, Kafka was told {facts.committed} and "
            f"{_text(max(stamp, known))}{'' if max(stamp, known)[:2] > at[:2] else ' of another claim'}: {LOST_WRITES}"
        )


def _text(at: ClaimVersion) -> str:
    return f"{at.version} of era {at.era}" if at.era else str(at.version)


def told_era(facts: TopicFacts) -> int:
    """The era in the last informational commit."""
    return _ours(facts.metadata)[0].era


def _ours(metadata: str) -> tuple[ClaimVersion, str | None]:
    """Parse the metadata of an informational commit of Sluicegate. Returns its version and incarnation; (NOTHING, None)
    for any other commit."""
    try:
        decoded: Any = msgspec.json.decode(metadata) if metadata else None
    except UNREADABLE:
        return NOTHING, None
    if not isinstance(decoded, list) or not 3 <= len(decoded) <= 5 or decoded[0] != MAKER:
        return NOTHING, None
    version, incarnation, era, lineage = decoded[1:] + [0, ""][len(decoded) - 3 :]  # as older programs wrote them
    if isinstance(version, int) and isinstance(incarnation, str) and isinstance(era, int) and isinstance(lineage, str):
        return ClaimVersion(era, version, lineage), incarnation
    return NOTHING, None


def maker_of(metadata: str) -> str | None:
    """The incarnation in an informational commit of Sluicegate; None for any other commit."""
    return _ours(metadata)[1]


def check_partitions(source: Source | None, facts: TopicFacts, aggregation: Aggregation, open_groups: int) -> bool:
    """Whether input partitions were added since the last commit. Raises PartitionsChanged if open groups can never end
    because their keys moved to other partitions."""
    if source is None or not source.partition_count or facts.partitions <= source.partition_count:
        return False
    if open_groups and not aggregation.timed and aggregation.window is None:
        raise PartitionsChanged(
            f"the topic has {facts.partitions} partitions, it had {source.partition_count}: keys moved, and "
            f"{counted(open_groups, 'open group')} may never be completed; give the aggregation a timeout, they then "
            "end by it"
        )
    return True


def check_low(facts: TopicFacts, offset: int, first: int) -> None:
    """Compare the requested offset with the first offset that came. Missing offsets are normal after transactions or
    compaction. If the topic begins above `offset`, it lost records. Raises RetentionPassed."""
    if facts.low > offset:
        raise RetentionPassed(
            f"the next offset is {offset}, the topic begins at {facts.low}, the first record is {first}"
        )
