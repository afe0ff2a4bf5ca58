"""What a worker says of its partitions and counts of their commits."""

from collections.abc import Sequence
from math import inf

import structlog

from sluicegate.streams.aggregation.events import Event, Fire
from sluicegate.streams.contracts.ids import fire_ids
from sluicegate.streams.contracts.stores import Gauge
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.observe.report import PartitionReport
from sluicegate.streams.observe.tracing import Spans
from sluicegate.streams.outbox.rows import timestamp
from sluicegate.streams.ownership.owner import Owner

FORGOTTEN = (
    "more ids than max_ids within the horizon: a duplicate of one that is forgotten counts again; raise "
    "max_ids or lower horizon"
)


def partition_report(owner: Owner, monotonic: float, gauge: Gauge, waits: str | None = None) -> PartitionReport:
    """Offsets, open groups and unsent rows as the owner knows them, without a request. `waits`: what its intake stands
    before."""
    partition, groups, shard = owner.partition, owner.groups, owner.shard
    now = owner.now(monotonic)
    oldest, due = groups.oldest(), groups.next_due()
    return PartitionReport(
        partition.topic,
        partition.number,
        "paused" if shard.full or waits else "running",
        offset=owner.claim.offset,
        high=gauge.high(partition.topic, partition.number),
        groups=len(groups.states),
        bytes=groups.bytes,
        oldest=None if oldest is None else max(0.0, now - oldest),
        next_deadline=None if due == inf else due - now,
        sealed=len(owner.sealed.held),
        unsent=shard.unsent,
        unsent_age=None if shard.oldest is None else monotonic - shard.oldest,
        read_age=_read_age(owner, now),
        error="decode-waits" if waits else None,
        detail=waits,
    )


def _read_age(owner: Owner, now: float) -> float | None:
    at = 0.0 if owner.newest is None else timestamp(owner.newest)
    return max(0.0, now - at) if at else None


def count_receipts(owner: Owner, meter: Meter, log: structlog.typing.FilteringBoundLogger) -> None:
    """What was received from other agents since the last call, where what came too late to be known is loud, and what
    the file left out without a dead letter."""
    dropped, late = owner.senders.receipts()
    dropped += _count_duplicates(owner, meter, log)
    counts, owner.groups.counts = owner.groups.counts, {"skipped": 0, "discarded": 0}
    for (clause, outcome), times in owner.groups.outcomes.items():
        if times:
            meter.count("expressions", times, clause=clause, outcome=outcome)
    owner.groups.outcomes.clear()
    passed_over, owner.passed_over = owner.passed_over, 0
    left_out = (
        ("records_skipped", counts["skipped"]),
        ("records_passed_over", passed_over),
        ("groups_discarded", counts["discarded"]),
    )
    for name, times in (("records_duplicate", dropped), ("records_late", late), *left_out):
        if times:
            meter.count(name, times)
    if late:
        log.warning("records.late", topic=owner.partition.topic, partition=owner.partition.number, records=late)


def _count_duplicates(owner: Owner, meter: Meter, log: structlog.typing.FilteringBoundLogger) -> int:
    """How many were dropped since the last call; ids that were forgotten too early are loud, once a claim."""
    dedupe = owner.dedupe
    if dedupe is None:
        return 0
    dropped, dedupe.dropped = dedupe.dropped, 0
    early, dedupe.seen.early = dedupe.seen.early, 0
    if early:
        meter.count("ids_forgotten", early)
        if not dedupe.told:
            where = owner.partition
            log.warning(
                "dedupe.full", topic=where.topic, partition=where.number, max_ids=dedupe.seen.most, text=FORGOTTEN
            )
        dedupe.told = True
    return dropped


def trace_fires(owner: Owner, events: Sequence[Event], latency: float, spans: Spans) -> None:
    """A span of each group that a commit let out; `latency` as for `count_events`."""
    partition, source = owner.partition, owner.claim.source
    identify = fire_ids(partition, source.name if source else "")
    for fire in events:
        if isinstance(fire, Fire):
            attributes: dict[str, str | int] = {
                "sluicegate.id": identify(fire.first),
                "sluicegate.agent": partition.agent,
                "sluicegate.topic": partition.topic,
                "sluicegate.partition": partition.number,
                "sluicegate.reason": fire.reason,
                "sluicegate.count": fire.count,
                "sluicegate.first": fire.first,
                "sluicegate.last": fire.last,
            }
            spans.fired(attributes, latency, fire.trace)
