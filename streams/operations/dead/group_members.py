"""Computes the fields of a completed group of `scope: shared` again, from the messages that its dead letter names. Such
a group has messages of several partitions. A letter without the computed fields names their places."""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

import msgspec

from sluicegate.streams import formats
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import COUNT
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.headers import DEAD_MEMBERS
from sluicegate.streams.contracts.record import Record, headers
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.operations.dead.dead_letters import Letter, Unrepairable
from sluicegate.streams.reducers import BEYOND
from sluicegate.streams.shared.shared_firing import endless
from sluicegate.streams.shared.shared_records import Common, SharedRecord
from sluicegate.streams.shared.shared_retries import MOST_MEMBERS, places_of
from sluicegate.streams.topic_names import reads

MessagePlace = tuple[str, int, int]
ReadRange = Callable[[Mapping[TopicPartition, tuple[int, int]]], Iterable[Record]]
"""Reads each partition from an offset up to another one. Raises SystemNotReady."""


def shared_fields(agent: Agent, letter: Letter, fire: Fire, read: ReadRange) -> dict[str, Any]:
    """The computed fields. Raises Unrepairable and SystemNotReady."""
    records = _read(_places(agent, letter), read)
    groups = Groups(Rule(endless(agent), formats.reads(agent)))
    accept(groups, records, fire.opened)
    state = groups.states.get(fire.key)
    count = 0 if state is None else state[COUNT]
    if count != fire.count:
        raise Unrepairable(
            f"its letter lacks computed fields, and the topics have {count} of its {fire.count} messages under the "
            "rule of the file"
        )
    return computed(groups, fire.key)


def computed(groups: Groups, key: bytes) -> dict[str, Any]:
    """The fields of this group. Raises Unrepairable for a sum that no result holds."""
    values = groups.rule.values(groups.states[key], groups.bags.get(key, []))
    if names := groups.rule.overflowed(values):
        raise Unrepairable(f"its messages still give {' and '.join(names)} {BEYOND}")
    return values


def _places(agent: Agent, letter: Letter) -> list[MessagePlace]:
    """The places of the messages. Raises Unrepairable, also for a topic that the agent does not read: the agent did not
    write such a letter."""
    members = dict(letter.headers).get(DEAD_MEMBERS)
    if members is None:
        why = f"their places have more than {MOST_MEMBERS // 1024} KiB, or an earlier release wrote the letter"
        raise Unrepairable(f"its letter holds neither a document nor the places of its messages ({why})")
    try:
        places = places_of(members)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Unrepairable(f"its letter does not name its messages ({type(error).__name__})") from error
    for topic, _, _ in places:
        if not reads(agent.topics, topic):
            raise Unrepairable(f"its letter names messages of {topic}, which is not an input of agent {agent.name}")
    return places


def _read(places: list[MessagePlace], read: ReadRange) -> list[SharedRecord]:
    """The messages that are still there, in the order of the group."""
    spans: dict[TopicPartition, tuple[int, int]] = {}
    for topic, number, offset in places:
        first, end = spans.get((topic, number), (offset, offset))
        spans[topic, number] = min(first, offset), max(end, offset + 1)
    wanted = {place: index for index, place in enumerate(places)}
    there = [
        _shared(record, index)
        for record in read(spans)
        if (index := wanted.get((record.topic(), record.partition(), record.offset()))) is not None
    ]
    return sorted(there, key=attrgetter("index"))


def _shared(record: Record, index: int) -> SharedRecord:
    common = Common(record.topic(), "", record.partition(), 0.0)
    pairs = headers(record) or None
    return SharedRecord(record.offset(), record.key(), record.value(), pairs, record.timestamp(), common, index)
