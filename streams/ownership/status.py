"""Reports, metrics and spans of a worker's partitions."""

from collections.abc import Mapping, Sequence
from math import inf

import structlog

from sluicegate.streams.aggregation.events import Event, Fire
from sluicegate.streams.contracts.ids import fire_ids
from sluicegate.streams.contracts.stores import Gauge
from sluicegate.streams.observe.counting import count_answers
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.observe.report import FAILED, PartitionReport
from sluicegate.streams.observe.tracing import Spans
from sluicegate.streams.outbox.rows import timestamp
from sluicegate.streams.ownership.owner import Owner

UNPROVEN = "unproven"
FORGOTTEN = (
    "more ids than max_ids within the horizon: a duplicate of one that is forgotten counts again; raise "
    "max_ids or lower horizon"
)
KEYS_FORGOTTEN = (
    "more keys ended within remember than max_keys: a leg of one that is forgotten opens another group; raise max_keys "
    "or lower remember"
)


def partition_report(
    owner: Owner, monotonic: float, gauge: Gauge, waits: str | None = None, failure: str | None = None
) -> PartitionReport:
    """Report the owner's offsets, open groups and unsent rows, without a request to a system. `waits` is the reason why
    its intake is paused. `failure` is the last failure of the partition, until it is over."""
    partition, groups, shard = owner.partition, owner.groups.every(), owner.shard
    now = owner.now(monotonic)
    oldest = min((at for group in groups if (at := group.oldest()) is not None), default=None)
    due = min(group.next_due() for group in groups)
    # known only if the partition was read to its end and all records are committed
    end = gauge.ended(*owner.place) if owner.intake.offset == owner.claim.offset else -1
    return PartitionReport(
        partition.topic,
        partition.number,
        "paused" if shard.full or waits or owner.stopping else "running",
        offset=owner.claim.offset,
        high=gauge.high(partition.topic, partition.number),
        groups=owner.groups.open,
        bytes=sum(group.bytes for group in groups),
        oldest=None if oldest is None else max(0.0, now - oldest),
        next_deadline=None if due == inf else 0.0 if due == -inf else due - now,
        sealed=len(owner.sealed.by_number),
        unsent=shard.unsent,
        unsent_age=None if shard.oldest is None else monotonic - shard.oldest,
        read_age=_read_age(owner, now, monotonic),
        error="decode-waits" if waits else FAILED if failure else None,
        detail=waits or failure,
        origin_lag=None if owner.groups.origin is None else owner.groups.origin.event.lag(now),
        watermark_lag=None if owner.groups.windows is None else owner.groups.windows.event.lag(now),
        end=end if end >= owner.intake.offset else -1,
    )


def _read_age(owner: Owner, now: float, monotonic: float) -> float | None:
    """The age of the newest record in seconds. None if it has no time."""
    if owner.intake.newest is None:
        return monotonic - owner.intake.since
    read_at = timestamp(owner.intake.newest)
    return max(0.0, now - read_at) if read_at else None


def count_receipts(owner: Owner, meter: Meter, log: structlog.typing.FilteringBoundLogger) -> None:
    """Count the records since the last call that were duplicates, late, or left out without a dead letter."""
    dropped, late, forgotten = owner.intake.senders.receipts()
    counts = {"skipped": 0, "discarded": 0, "late": 0, "partly_late": 0, "late_legs": 0, "marks_ahead": 0}
    for groups in owner.groups.every():
        for name, times in groups.counts.items():
            counts[name] += times
        groups.counts.update(dict.fromkeys(groups.counts, 0))
        count_answers(groups.outcomes, meter)
        groups.outcomes.clear()
    passed_over, owner.intake.passed_over = owner.intake.passed_over, 0
    numbers = {
        "records_duplicate": dropped + _count_duplicates(owner),
        "records_late": late,
        "senders_forgotten": forgotten,
        "records_skipped": counts["skipped"],
        "records_passed_over": passed_over,
        "records_past_window": counts["late"],
        "records_partly_late": counts["partly_late"],
        "legs_late": counts["late_legs"],
        "groups_discarded": counts["discarded"],
    }
    refused, owner.intake.proof.refused = owner.intake.proof.refused, 0
    _count_forgotten(owner, meter, log)
    _warn_of_headers({"ahead": counts["marks_ahead"], UNPROVEN: refused}, owner, meter, log)
    for name, times in numbers.items():
        if times:
            meter.count(name, times)
    if forgotten:
        log.warning(
            "senders.forgotten", topic=owner.partition.topic, partition=owner.partition.number, senders=forgotten
        )
    if late:
        log.warning("records.late", topic=owner.partition.topic, partition=owner.partition.number, records=late)


def _warn_of_headers(
    refused: Mapping[str, int], owner: Owner, meter: Meter, log: structlog.typing.FilteringBoundLogger
) -> None:
    """Count and log, by reason, the headers that were ignored because they were not verified."""
    for reason, times in refused.items():
        if times:
            topic, number = owner.place
            meter.count("headers_refused", times, reason=reason)
            if reason == UNPROVEN and owner.intake.proof.warned:
                continue
            owner.intake.proof.warned = owner.intake.proof.warned or reason == UNPROVEN
            log.warning("headers.refused", topic=topic, partition=number, reason=reason, records=times)


def _count_duplicates(owner: Owner) -> int:
    """Count the duplicates since the last call."""
    dedupe = owner.intake.dedupe
    if dedupe is None:
        return 0
    dropped, dedupe.dropped = dedupe.dropped, 0
    return dropped


def _count_forgotten(owner: Owner, meter: Meter, log: structlog.typing.FilteringBoundLogger) -> None:
    """Count the ids that were forgotten within their horizon. Warns once per claim."""
    dedupe = owner.intake.dedupe
    ids = owner.groups.ids(dedupe)
    if ids is None or not ids.early:
        return
    meter.count("ids_forgotten", ids.early)
    ids.early = 0
    if not ids.warned:
        topic, number = owner.place
        if dedupe is None:
            log.warning("correlate.full", topic=topic, partition=number, max_keys=ids.most, text=KEYS_FORGOTTEN)
        else:
            log.warning("dedupe.full", topic=topic, partition=number, max_ids=ids.most, text=FORGOTTEN)
    ids.warned = True


def trace_fires(owner: Owner, events: Sequence[Event], latency: float, spans: Spans | None) -> None:
    """Make a span for each group that a commit fired. `latency` is as in `count_events`."""
    if spans is None or not events:
        return
    partition, source = owner.partition, owner.claim.source
    links = owner.groups.newest.counts.links
    identify = fire_ids(partition, source.name if source else "")
    for fire in events:
        if isinstance(fire, Fire):
            attributes: dict[str, str | int] = {
                "messaging.consumer.group.name": f"{partition.app}.{partition.agent}",
                "messaging.batch.message_count": fire.count,
                "sluicegate.id": identify(fire.number),
                "sluicegate.agent": partition.agent,
                "sluicegate.reason": fire.reason,
                "sluicegate.first": fire.first,
                "sluicegate.last": fire.last,
            }
            first = [] if fire.trace is None else [fire.trace]
            spans.fired(owner.place, attributes, latency, first if links is None else links.traces_of(fire))
