"""Generates the loop that makes the rows of results, or of sent messages: id, document, headers and partition in one
function.

The loop makes what `Rows` makes from a result that it can send, and raises an error before anything has changed if it
cannot prove that. `exactly` then makes the rows of the event: `Rows` defines the meaning, the loop computes the same,
faster. A result that its destination cannot take, a dead letter and every other event are made by `exactly`.

The code for results depends on the windows of the agent, on whether it has early results, and on whether its results
have routes. Everything else is a value, so agents of the same form share one function.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple
from zlib import crc32

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.compiled.compiler import MadeFunction, function, stage
from sluicegate.streams.aggregation.events import EARLY, EMPTY, MERGED, REASONS, WINDOW, Fire, Sent
from sluicegate.streams.aggregation.results import of_milliseconds, rfc3339, window_times
from sluicegate.streams.contracts.headers import CLOSED, COUNT, FINAL, FIRE, FIRST, ID, LAST, NUMBER, REASON, REVISION
from sluicegate.streams.contracts.headers import WINDOW as WINDOW_HEADER
from sluicegate.streams.contracts.ids import VARIANT, output_hash
from sluicegate.streams.contracts.record import Header
from sluicegate.streams.contracts.values import OutboxRow
from sluicegate.streams.expressions.templates import expression, statements
from sluicegate.streams.expressions.typed import unproven

_LOOP = """
rows, following = [], number
for event in events:
    if type(event) is KIND:
        try:
            MAKES
        except Exception:
            pass
        else:
            number = following
            continue
    careful, number = exactly(event, number)
    rows += careful
    following = number
return rows, number
"""
_RESULT = """
key, first, last = event.key, event.first, event.last
FORM
IDENTITY
RESULTS
"""
_SENT = """
topic, key, fire = event.topic, event.key, event.fire.encode()
if envelopes[event.output][0] is not None:
    unproven()
OUTPUT
following += 1
shard, partitions = topics.get(topic) or shard_of(topic)
headers = [(N_ID, output.encode()), shard, (N_NUMBER, b"%d" % following), *event.headers, (N_FIRE, fire), sender]
if event.trace is not None and not any(name == "traceparent" for name, _ in headers):
    headers.append(("traceparent", event.trace.encode("ascii", "replace")))
at = fixed_partition(shard, partitions) if key is None else partition_of(key, partitions)
rows.append(OutboxRow(following, lineage, output, topic, at, key, event.value, headers))
"""
_PLAIN = """
if event.window is not None:
    unproven()
"""
_WINDOW = """
window = event.window
begin, end, by, revision = window.start, window.end, window.by, window.revision
TIMES
"""
_TIMES = "begins, ends = window_times(begin, end)"
_OWN_TIMES = "begins, ends = of_milliseconds(begin), of_milliseconds(end)"  # no two windows have the same times
_ONE_RESULT = """
if event.final is not None or event.revision != 1:
    unproven()
"""
_FINAL = """
final = event.final
if final is None:
    unproven()
"""
_REVISION = "revision = event.revision"
_OF_ONE = 'b"%d]" % first'
_OF_MANY = 'b"%d]" % first if revision == 1 else b"%d,0,%d]" % (first, revision)'
_OF_WINDOW = """
(b"%d,%d,%d]" % (first, begin, revision) if revision > 1 else b"%d]" % last if window.own else
    b"%d,%d]" % (first, begin) if window.shared else b"%d]" % first)
"""
_HASHED = """
digest = HASH()
digest.update(NAME)
text = digest.hexdigest()
MADE = f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{variant[text[16]]}{text[17:20]}-{text[20:32]}"
"""
_HEADERS = """
headers = [(N_ID, output.encode()), shard, (N_NUMBER, b"%d" % following),
    (N_FIRE, fire), reasons[event.reason], (N_COUNT, b"%d" % event.count),
    (N_FIRST, b"%s%d" % (place, first)), (N_LAST, b"%s%d" % (place, last)), sender, rule]
if rule is None:
    headers.pop()
MORE
if event.trace is not None:
    headers.append(("traceparent", event.trace.encode("ascii", "replace")))
"""
_OF_WINDOWS = """
headers += (((N_WINDOW, f"{begins}/{ends}".encode()), NUMBERED, *closings[by]) if by in closings else
    of_window(window))
"""
_NUMBERED = 'first_revision if revision == 1 else (N_REVISION, b"%d" % revision)'
_OF_REVISION = "headers.append(NUMBERED)"
_OF_FINAL = 'headers.append((N_FINAL, b"true" if final else b"false"))'
_WINDOW_DOCUMENT = """
{"start": begins, "end": ends, "closed_by": by, "revision": revision} if by else {
    "start": begins, "end": ends, "revision": revision}
"""
_WHOLE = """
if event.outputs is not None:
    unproven()
value = encode(DOCUMENT)
ROW
"""
_ROUTED = """
if event.outputs is None or event.again is not None:
    unproven()
routed = []
for index, (at, content) in enumerate(event.outputs):
    topic, encode, _, envelope = targets[at]
    if envelope is not None:
        unproven()
    value = encode(content)
    ROW
rows += routed
"""
_ROW = """
if len(value) + len(key) > most:
    unproven()
OUTPUT
following += 1
shard, partitions = topics.get(topic) or shard_of(topic)
HEADERS
ROWS.append(OutboxRow(following, lineage, output, topic, partition_of(key, partitions), key, value, headers))
"""
_NAMES: dict[str, Any] = {
    f"N_{hole}": ast.Constant(header)
    for hole, header in {
        "FIRE": FIRE,
        "COUNT": COUNT,
        "FIRST": FIRST,
        "LAST": LAST,
        "WINDOW": WINDOW_HEADER,
        "REVISION": REVISION,
        "FINAL": FINAL,
        "ID": ID,
        "NUMBER": NUMBER,
    }.items()
}


def fixed_partition(shard: Header, partitions: int) -> int:
    """The partition of messages without a key."""
    return crc32((shard[1] or b"").partition(b">")[0]) % partitions


_FREE: dict[str, Any] = {
    "Fire": Fire,
    "Sent": Sent,
    "fixed_partition": fixed_partition,
    "OutboxRow": OutboxRow,
    "unproven": unproven,
    "variant": VARIANT,
    "output_hash": output_hash,
    "rfc3339": rfc3339,
    "window_times": window_times,
    "of_milliseconds": of_milliseconds,
    "reasons": {reason: (REASON, reason.encode()) for reason in (*REASONS, WINDOW, EARLY, EMPTY, MERGED)},
    "closings": {"": (), **{by: ((CLOSED, by.encode()),) for by in ("event", "late")}},
    "first_revision": (REVISION, b"1"),
}


class RowValues(NamedTuple):
    """The values of the loop that belong to a claim.

    `sender` and `rule` are the headers that name the agent and its rule; `rule` is None if it is not known. `fire_hash`
    makes the hash of the ids of results. `topic` and `encode` are of the destination of whole results, `targets` of the
    routes, `envelopes` of the outputs of sent messages. `most` is the size of a key and a value. `shard_of` gives the
    header and the number of partitions of a topic; `topics` has those that are known. `of_window` makes the headers of
    any window.
    """

    lineage: str
    place: bytes
    sender: Header
    rule: Header | None
    fire_hash: Callable[[], Any]
    topic: str
    encode: Callable[[Any], bytes]
    targets: Sequence[Any]
    envelopes: Sequence[Any]
    most: int
    topics: Mapping[str, tuple[Header, int]]
    shard_of: Callable[[str], tuple[Header, int]]
    partition_of: Callable[[bytes, int], int]
    of_window: Callable[[Any], Sequence[Header]]


class RowForm(NamedTuple):
    """What the code depends on. `windows`: none, own (each result has its own) or shared by many results. `emits`: a
    group has early results. `routed`: results have the outputs that routes chose."""

    windows: Literal["none", "own", "shared"]
    emits: bool
    routed: bool


def form_of(agent: Agent, routed: bool) -> RowForm | None:
    """None: the outputs of the agent are sent messages."""
    rule = agent.aggregation
    if rule is None or agent.handler is not None:
        return None
    windows: Literal["none", "own", "shared"] = "none"
    if rule.window is not None:
        windows = "own" if rule.window.kind == "sliding" else "shared"
    return RowForm(windows, rule.emit is not None, routed)


@cache
def row_loop(form: RowForm | None) -> MadeFunction:
    """The loop for results of this form; None: for sent messages."""
    makes, kind = (_sent(), "Sent") if form is None else (_result(form), "Fire")
    parameters = "events", "number", "exactly", *RowValues._fields
    return function("rows", parameters, statements(_LOOP, KIND=kind, MAKES=makes), _FREE)


def _sent() -> list[ast.stmt]:
    name = expression("b'%s\",%d]' % (fire, event.index)")
    output = statements(_HASHED, HASH="output_hash", NAME=name, MADE="output")
    return statements(_SENT, OUTPUT=[stage("id"), *output], **_NAMES)


def _result(form: RowForm) -> list[ast.stmt]:
    fire = statements(_HASHED, HASH="fire_hash", NAME=_number(form), MADE="fire")
    if form.routed:
        results = statements(_ROUTED, ROW=_row(form, "routed", "b'%s\",%d]' % (fire, index)"))
    else:
        results = statements(_WHOLE, DOCUMENT=_document(form), ROW=_row(form, "rows", "b'%s\",0]' % fire"))
    identity = [stage("id"), *fire, *statements("fire = fire.encode()")]
    return statements(_RESULT, FORM=_form(form), IDENTITY=identity, RESULTS=[stage("result"), *results])


def _form(form: RowForm) -> list[ast.stmt]:
    """The code that reads what the form of the agent adds, and that refuses events of another form."""
    times = statements(_OWN_TIMES if form.windows == "own" else _TIMES)
    code = statements(_PLAIN) if form.windows == "none" else statements(_WINDOW, TIMES=times)
    if not form.emits:
        return [*code, *statements(_ONE_RESULT)]
    return [*code, *statements(_FINAL), *(statements(_REVISION) if form.windows == "none" else [])]


def _number(form: RowForm) -> ast.expr:
    """The name of the result, as `Fire.number` has it, for its id."""
    if form.windows != "none":
        return expression(_OF_WINDOW.strip())
    return expression(_OF_MANY if form.emits else _OF_ONE)


def _document(form: RowForm) -> ast.expr:
    """The result document, as `results.document` has it."""
    fields = {
        "key": "key.decode()",
        "count": "event.count",
        "reason": "event.reason",
        "opened_at": "rfc3339(event.opened)",
        "closed_at": "rfc3339(event.closed)",
    }
    fields |= {"revision": "revision", "final": "final"} if form.emits else {}
    fields |= {"window": _WINDOW_DOCUMENT.strip()} if form.windows != "none" else {}
    keys: list[ast.expr | None] = [ast.Constant(field) for field in fields]
    return ast.Dict([*keys, None], [*map(expression, fields.values()), expression("event.values")])


def _row(form: RowForm, rows: str, name: str) -> list[ast.stmt]:
    """The code of one row of a result. `name` names the output among all outputs, for its id."""
    output = statements(_HASHED, HASH="output_hash", NAME=expression(name), MADE="output")
    revision = expression(_NUMBERED, **_NAMES)
    if form.windows != "none":
        code = statements(_OF_WINDOWS, NUMBERED=revision, **_NAMES)
    else:
        code = statements(_OF_REVISION, NUMBERED=revision) if form.emits else []
    headers = statements(_HEADERS, MORE=[*code, *(statements(_OF_FINAL, **_NAMES) if form.emits else [])], **_NAMES)
    return statements(_ROW, OUTPUT=[stage("id"), *output], HEADERS=[stage("headers"), *headers], ROWS=rows)
