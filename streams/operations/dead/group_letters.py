"""Makes the completed group of a dead letter again, from the letter's result document or from its topic.

The letter of a group is its result document. So it holds all that the file's clauses and the handler get, and the
messages that the group collected. Three letters lack something: a result that no message can hold has a letter without
a document, a document lacks a number that no double holds, and a document of an earlier rule lacks the fields that the
file computes now. Then the messages are read again from their topic. Their number must be the group's number of
records, from its first to its last one.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec

from sluicegate.schemas.codecs import as_json
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, Aggregation
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.events import WHOLE, Closing, Fire
from sluicegate.streams.aggregation.events_read import as_read
from sluicegate.streams.aggregation.results import fixed_fields
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.headers import (
    COUNT,
    DEAD_CUT,
    DEAD_RETRIES,
    DEAD_TIMESTAMP,
    FINAL,
    FIRE,
    FIRST,
    LAST,
    REASON,
    REVISION,
    RULE,
    WINDOW,
    MessageHeaders,
    UnreadableHeader,
    by_name,
)
from sluicegate.streams.contracts.ids import output_id, retry_id
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.handlers.packing import pack
from sluicegate.streams.operations.dead.dead_letters import Letter, Unrepairable
from sluicegate.streams.operations.dead.group_members import ReadRange, computed, shared_fields
from sluicegate.streams.operations.explaining import GroupHistory
from sluicegate.streams.operations.rebuilding.rebuild import UnendingGroups, unending
from sluicegate.streams.outbox.rows import letters_codec
from sluicegate.streams.outbox.sizes import LARGEST
from sluicegate.streams.rules import rule_of

REPLAY = "`sluicegate replay` computes its result from its topic"
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def group(app: str, agent: Agent, letter: Letter, read: ReadRange) -> Fire:
    """The completed group, and the steps that a retry has to decide. Raises Unrepairable and SystemNotReady."""
    fire = _fire_of(app, agent, letter, read)
    if agent.scope == "shared" and (size := len(pack(fire))) > LARGEST:
        raise Unrepairable(f"it has {size} bytes, more than the store keeps of one group; {REPLAY}")
    return fire


def _fire_of(app: str, agent: Agent, letter: Letter, read: ReadRange) -> Fire:
    again = _retry_steps(agent, letter)
    headers = by_name(letter.headers)
    try:
        fire = _without_values(agent, letter, headers, again)
        if letter.value is None or letter.reason == "overflow" or DEAD_CUT in headers:
            return msgspec.structs.replace(fire, values=_counted(app, agent, letter, fire, read))
        known = _of_document(agent, letter.value)
        if _lacks_fields(agent, letter, headers, known["values"]):
            known["values"] = _counted(app, agent, letter, fire, read)
        return msgspec.structs.replace(fire, **known)
    except (msgspec.MsgspecError, LookupError, ValueError, TypeError, UnreadableHeader) as error:
        raise Unrepairable(f"its letter does not hold the group ({type(error).__name__}); {REPLAY}") from error


def _retry_steps(agent: Agent, letter: Letter) -> int | None:
    """The value of `Fire.again`. Raises Unrepairable."""
    if agent.handler is not None:
        return None if letter.stage == "handler" else WHOLE  # the file's clauses let it pass
    if letter.stage == "handler":
        raise Unrepairable(f"its handler failed, and agent {agent.name} has no handler any more; {REPLAY}")
    if letter.reason == "no-destination" and agent.to is None:
        raise Unrepairable(f"agent {agent.name} has no `to`: there is no topic for its result")
    return _index(agent, letter) if letter.stage == "produce" and letter.reason != "no-destination" else WHOLE


def _index(agent: Agent, letter: Letter) -> int:
    """The index of the output that could not be written: the other outputs of the group were sent. Raises
    Unrepairable."""
    headers = by_name(letter.headers)
    fire, retries = headers.text(FIRE), _retries(headers)
    for index in range(max(1, len(agent.outputs))):
        identity = output_id(fire, index)
        if letter.id == (retry_id(identity, retries) if retries else identity):
            return index
    raise Unrepairable("it is about a message of the history, or about an output that the file lacks now")


def _retries(headers: MessageHeaders) -> int:
    return headers.integer(DEAD_RETRIES) if DEAD_RETRIES in headers else 0


def _without_values(agent: Agent, letter: Letter, headers: MessageHeaders, again: int | None) -> Fire:
    opened = _seconds(headers.text(DEAD_TIMESTAMP))
    return Fire(
        letter.key or b"",
        headers.integer(COUNT),
        headers.text(REASON),
        headers.offset(FIRST),
        headers.offset(LAST),
        opened,
        max(opened, letter.at),
        headers.text("traceparent") or None,
        {},
        headers.removed(),
        window=_window(agent, headers),
        retries=_retries(headers) + 1,
        again=again,
        revision=headers.integer(REVISION) if REVISION in headers else 1,
        final=headers.text(FINAL) == "true" if FINAL in headers else None,
    )


def _of_document(agent: Agent, value: bytes) -> dict[str, Any]:
    """The times and the computed fields of a result document."""
    codec = letters_codec(agent, formats.writes(agent))
    document = _fields(as_json(codec)(value))
    opened, closed = (_seconds(msgspec.json.decode(document[name], type=str)) for name in ("opened_at", "closed_at"))
    fixed = fixed_fields(True, agent.aggregation is not None and agent.aggregation.emit is not None)
    values = {name: value for name, value in document.items() if name not in fixed}
    return {"opened": opened, "closed": closed, "values": values}


def _lacks_fields(agent: Agent, letter: Letter, headers: MessageHeaders, values: Mapping[str, Any]) -> bool:
    """Whether the document lacks computed fields of the file, because the engine failed at them, or because another
    rule ended the group. The letter of a shared group that has a document does not name its messages."""
    computed_by = agent.aggregation.compute if agent.aggregation is not None else ()
    another = agent.scope != "shared" and headers.raw(RULE) != rule_of(agent).short.encode()
    return (letter.stage == "crash" or another) and not values.keys() >= {reducer.name for reducer in computed_by}


def _window(agent: Agent, headers: MessageHeaders) -> Closing | None:
    if WINDOW not in headers:
        return None
    start, end = headers.window()
    by, rests = headers.closed()
    following, watermark = (*rests, *(-1, 0)[len(rests) :])
    window = agent.aggregation.window if agent.aggregation is not None else None
    kind = None if window is None else window.windower
    shared, own = kind is not None and kind.overlaps, kind is not None and kind.immediate
    return Closing(start, end, by, watermark, headers.integer(REVISION), following, shared, own)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _counted(app: str, agent: Agent, letter: Letter, fire: Fire, read: ReadRange) -> dict[str, Any]:
    """The computed fields of the group, from its messages in the topic. Raises Unrepairable and SystemNotReady."""
    if fire.removed:
        raise Unrepairable(f"its letter lacks computed fields, and its handler had taken messages out; {REPLAY}")
    if agent.scope == "shared":
        return shared_fields(agent, letter, fire, read)
    rule = _ending_never(agent)
    place, window = (letter.topic, letter.partition), fire.window
    span = None if window is None else (window.start, window.end)
    history = GroupHistory(Partition(app, agent.name, *place), agent, fire.first, fire.key, span)
    groups = UnendingGroups(Rule(rule, formats.reads(agent)))
    seen = [record for record in read({place: (fire.first, fire.last + 1)}) if history.takes(record)]
    accept(groups, as_read(groups, seen), fire.opened)
    if len(seen) != fire.count or seen[-1].offset() != fire.last or list(groups.states) != [fire.key]:
        span_of = f"{letter.topic}/{letter.partition} from {fire.first} to {fire.last}"
        raise Unrepairable(
            f"its letter lacks computed fields, and {span_of} has {len(seen)} of its {fire.count} messages under the "
            "rule of the file"
        )
    return computed(groups, fire.key)


def _ending_never(agent: Agent) -> Agent:
    """The agent with a rule whose only group takes all messages. Raises Unrepairable."""
    rule = unending(agent).aggregation or Aggregation()
    if rule.window is not None and not rule.window.windower.placed:
        raise Unrepairable(f"its letter lacks computed fields, and only its worker computes such a window; {REPLAY}")
    return replace(agent, aggregation=replace(rule, window=None))
