"""The compiled loop of a rule: a function that adds records to groups, generated for this rule.

A record passes through fixed stages: decode the value once, `where`, the fields and the key, the deadline, the items of
the bags, the group and its room, the user reducers, the other reducers, the items, the end of the group. If the code
cannot prove something, it raises an error before anything has changed, and accept.py processes the record. accept.py
defines the meaning of a rule; the loop computes the same, faster.

Measured (tests/bench/hotpath.py): a call per reducer costs about 50 ns, `headers()` 120 to 350 ns. So reducers are
inlined, and headers are read only when a group opens.
"""

import ast
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

from msgspec import ValidationError

from sluicegate.schemas.json import document, encode, flat, key_text, same, shallow
from sluicegate.streams.aggregation.clauses import needed
from sluicegate.streams.aggregation.compiled.bags import bags_code
from sluicegate.streams.aggregation.compiled.compiler import MadeFunction, function, stage
from sluicegate.streams.aggregation.compiled.dedupe import FLUSH_IDS, NEW_IDS, NOTED, START_OF_IDS, identity_code
from sluicegate.streams.aggregation.compiled.ends import (
    BEFORE,
    CHANGED,
    ENDED,
    JUDGES,
    TAKE_OVER,
    deadline_code,
    end_code,
    judged_code,
    quiet_code,
    tells_changes,
    until_code,
)
from sluicegate.streams.aggregation.compiled.placing import BY_KEY, Placing
from sluicegate.streams.aggregation.compiled.reducers import reducer_code
from sluicegate.streams.aggregation.compiled.single import single_code
from sluicegate.streams.aggregation.compiled.slots import SLOTS
from sluicegate.streams.aggregation.compiled.values import RECORD_KEY, RecordValues
from sluicegate.streams.aggregation.contents import LARGEST_ITEM
from sluicegate.streams.aggregation.layout import COLUMNS
from sluicegate.streams.aggregation.reducers import apply
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.seen import LONGEST_ID
from sluicegate.streams.expressions.templates import expression, name, statements
from sluicegate.streams.expressions.typed import NotTyped, unproven
from sluicegate.streams.reducers import plus, reads_messages

_START_OF_BAGS = """
bags = groups.bags
added = groups.added
more, room = 0, groups.most_bytes - groups.bytes
"""
_FLUSH_BAGS = """
groups.bytes += more
more = 0
"""
_NEW_ROOM = """
room = groups.most_bytes - groups.bytes
"""
_FLUSHED = """
try:
    LOOP
finally:
    FLUSH
"""
_LOOP = """
START
left_out = aside = 0
LOOP
FINISH
"""
_EACH = """
for record in records:
    try:
        value = record.value()
        if len(value) > most:
            unproven()
        READ
        WHERE
        VALUES
        FIND
        ITEMS
        JUDGED
    except Exception:
        aside += 1
        FLUSH
        exactly(groups, record, now)
        AGAIN
        continue
    MOVES
    TAKES
    END
"""
_GROUPS = """
touched = groups.touched
get = groups.states.get
"""
_TAKES = """
if state is None:
    state = OPEN
    if state is None:
        CLOSED
        continue
    OPENED
REDUCERS
COLLECT
touched[key] = state
"""
_ADD = """
state[COUNT] = count = state[COUNT] + 1
state[LAST] = record.offset()
REDUCERS
"""
_WHERE = """
if not X:
    CHECKS
    left_out += 1
    PASSED
    continue
"""
_OWN_BAGS = "\nown = bags[key]"
_SEEN = "state[SEEN] = now"
_LINKED = """
groups.counts.links.note(state[FIRST], record)
"""
_FOLDED = """
message = message_of(value)
APPLY
if SIZE > most_folded:
    unproven()
"""
_APPLY = "N = apply(folds[I], unopened if state is None else state, message)"
_COUNTED = """
groups.outcomes["where", "true"] += len(records) - left_out - aside
groups.outcomes["where", "false"] += left_out
"""


def loop_of(
    rule: Rule, asks: bool, exactly: Callable[..., object], placing: Placing | None = BY_KEY, dedupes: bool = False
) -> MadeFunction | None:
    """The compiled loop of the rule. With `asks` it also evaluates `where`, with `dedupes` it also drops duplicates.
    Each of these loops is compiled once. None: the rule cannot be compiled."""
    stages = asks, dedupes
    if stages not in rule.loops:
        rule.loops[stages] = None if placing is None else _compiled(rule, asks, exactly, placing, dedupes)
    loop: MadeFunction | None = rule.loops[stages]
    return loop


def _compiled(
    rule: Rule, asks: bool, exactly: Callable[..., object], placing: Placing, dedupes: bool
) -> MadeFunction | None:
    plan, bags = rule.plan, bool(rule.plan.bags)
    kept = any(map(reads_messages, rule.aggregation.compute))
    if rule.aggregation.table or (rule.ending and plan.folds):
        return None
    try:
        values = RecordValues(rule, asks, dedupes)
        body = _body(rule, values, asks, placing)
    except NotTyped:
        return None
    if values.code is not None and (rule.reader.codec.name != "json" and (kept or not values.code.fields)):
        return None
    most = rule.max_record_bytes if not bags else min(rule.max_record_bytes, LARGEST_ITEM // (8 * len(plan.bags)))
    names = {**values.names(), **placing.names, "exactly": exactly, "unproven": unproven, "plus": plus}
    names |= {
        "computable": rule.computable,
        "largest_group": rule.aggregation.max_bytes,
        "encode": encode,
        "key_text": key_text,
        "same": same,
    }
    names |= {"blank": plan.blank, "name_of_until": rule.ending.name if rule.ending is not None else ""}
    names |= {"flat": flat, "document": document, "shallow": shallow, "ValidationError": ValidationError}
    names |= {"most": min(most, values.largest())}
    names |= {"seconds": rule.deadline.seconds, "inf": inf} if rule.deadline is not None else {}
    names |= {"message_of": rule.reader.message, "apply": apply, "folds": plan.folds}
    names |= {"unopened": [*[None] * COLUMNS, *plan.blank]}
    names |= {"most_folded": min(rule.aggregation.max_bytes, LARGEST_ITEM)}
    names |= {"with_care": partial(partial, exactly), "longest_id": LONGEST_ID}
    return function("rule", ("groups", "records", "now", "duplicates"), body, names)


def _body(rule: Rule, values: RecordValues, asks: bool, placing: Placing) -> list[ast.stmt]:
    judged, loop, flush = rule.ending is not None, _each(rule, values, placing), _flush(rule, values)
    if flush:
        loop = statements(_FLUSHED, LOOP=loop, FLUSH=statements(flush))
    start = "" if placing.result is not None else _GROUPS
    start += (_START_OF_BAGS if rule.plan.bags else "") + (START_OF_IDS if values.dedupe is not None else "")
    return statements(
        _LOOP,
        START=statements(f"{start}\n{placing.start}\n{JUDGES if judged else ''}\n{quiet_code(rule)}"),
        LOOP=loop,
        FINISH=statements(
            (_COUNTED if asks and rule.where is not None else "") + (ENDED if judged else "") + placing.finish
        ),
        **SLOTS,
    )


def _flush(rule: Rule, values: RecordValues) -> str:
    """The code that adds the bytes of new items, and new ids, to the groups. It runs even if the loop raises an
    error."""
    return (_FLUSH_BAGS if rule.plan.bags else "") + (FLUSH_IDS if values.dedupe is not None else "")


def _each(rule: Rule, values: RecordValues, placing: Placing) -> list[ast.stmt]:
    own = [place for place in rule.places if place.own]
    single = [] if placing.result is None else single_code(own, values)
    reducers = [made for place in own if not place.in_bag for made in reducer_code(place, values)]
    items, collect = bags_code(rule, values, [place for place in own if place.in_bag])
    key, ends, find = _key(rule, values), until_code(rule, values), _find_group(placing, values)
    key += identity_code(values)
    values.compute(needed(rule.agent))
    deadline = deadline_code(rule, values)
    add = statements(_ADD, REDUCERS=[stage("reducers"), *reducers] if reducers else [], **SLOTS)
    judged = judged_code(rule, values, add)
    if judged:
        behind = ast.Constant(COLUMNS + sum(place.size for place in own))
        add, ends = statements(TAKE_OVER, BEHIND=behind, **SLOTS), name("ends")
    flush, again, closed = _with_care(rule, values, placing)
    before = BEFORE if tells_changes(rule) and not judged else ""
    changed = CHANGED if tells_changes(rule) else ""
    return statements(
        _EACH,
        READ=values.read(),
        WHERE=_where(values, placing),
        VALUES=[stage("values and key"), *values.statements, *key, *deadline],
        FIND=find,
        ITEMS=items,
        FLUSH=flush,
        AGAIN=again,
        MOVES=[stage("group"), *statements(placing.moves)],
        TAKES=single
        or statements(
            _TAKES,
            OPEN=expression(placing.opens),
            CLOSED=closed,
            OPENED=statements(placing.opened + (_OWN_BAGS if collect else "")),
            REDUCERS=[*statements(before, **SLOTS), *add, *_more(rule, values, placing)],
            COLLECT=collect,
        ),
        JUDGED=[*judged, *_folded(rule)],
        END=[*end_code(rule, ends, placing), *statements(changed)],
        **SLOTS,
    )


def _with_care(rule: Rule, values: RecordValues, placing: Placing) -> tuple[list[ast.stmt], ...]:
    """The code before a record that accept.py processes, the code after it, and the code for a group that could not be
    opened."""
    flush, room = statements(_flush(rule, values)), _NEW_ROOM if rule.plan.bags else ""
    after = room + (NEW_IDS if values.dedupe is not None else "") + placing.again
    if not placing.closed:
        return flush, statements(after), statements(room + placing.again)
    return flush, statements(after), [*flush, *statements(placing.closed + after)]


def _more(rule: Rule, values: RecordValues, placing: Placing) -> list[ast.stmt]:
    """The code that changes the other parts of the state of a group, beside the slots of its reducers."""
    seen, linked = rule.completion.since_last < inf, rule.reader.traced and placing.result is None
    parts = [placing.joins, _SEEN if seen else "", _LINKED if linked else "", NOTED if values.dedupe else ""]
    return statements("\n".join(parts), **SLOTS)


def _folded(rule: Rule) -> list[ast.stmt]:
    """The code that calls the user reducers. It is the last code that may raise an error, so a reducer is called again
    only for a record that a reducer refuses."""
    names = [f"folded{fold.slot}" for fold in rule.plan.folds]
    if not names:
        return []
    calls = [made for at, one in enumerate(names) for made in statements(_APPLY, N=one, I=ast.Constant(at))]
    size = expression(" + ".join(f"len({one})" for one in names))
    return [stage("user reducers"), *statements(_FOLDED, APPLY=calls, SIZE=size)]


def _find_group(placing: Placing, values: RecordValues) -> list[ast.stmt]:
    time: dict[str, Any] = {} if placing.time is None else {"TIME": values.local(placing.time, "any", True)}
    find = statements(placing.find, **time)
    return find if placing.find == BY_KEY.find else [stage("window"), *find]


def _where(values: RecordValues, placing: Placing) -> list[ast.stmt]:
    checks = values.code.checks() if values.code is not None else []
    if values.where is None or values.code is None:
        return [*values.key, *checks]
    passed_over, passed = values.code.checks(passed_over=True), statements(placing.passed)
    return [
        *values.key,
        stage("where"),
        *statements(_WHERE, X=values.where, CHECKS=passed_over, PASSED=passed),
        *checks,
    ]


def _key(rule: Rule, values: RecordValues) -> list[ast.stmt]:
    if not rule.aggregation.key:
        return [] if values.key else statements(RECORD_KEY)
    local = values.local(rule.aggregation.key, "any", False)
    return statements("key = N.encode() if type(N) is str else key_text(N)", N=local)
