"""The compiled loop of a rule without windows: a function that adds records to groups, generated for this rule.

A record passes through fixed stages: decode the value once, `where`, the fields and the key, the deadline, the items of
the bags, the group and its room, the user reducers, the other reducers, the items, the end of the group. If the code
cannot prove something, it raises an error before anything has changed, and accept.py processes the record. accept.py
defines the meaning of a rule; the loop computes the same, faster.

Measured (tests/bench/hotpath.py): a call per reducer costs about 50 ns, `headers()` 120 to 350 ns. So reducers are
inlined, and headers are read only when a group opens.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import ValidationError

from sluicegate.schemas.json import document, encode, flat, key_text, same, shallow
from sluicegate.streams.agent import Until
from sluicegate.streams.aggregation.clauses import clause, names_of, needed, typed_code
from sluicegate.streams.aggregation.compiler import MadeFunction, function, stage
from sluicegate.streams.aggregation.groups import LARGEST_ITEM
from sluicegate.streams.aggregation.layout import BYTES, COLUMNS, COUNT, FIRST, LAST, SEEN
from sluicegate.streams.aggregation.loop_group import of_group
from sluicegate.streams.aggregation.reducers import apply
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.seen import LONGEST_ID
from sluicegate.streams.bags import SET, ListForm
from sluicegate.streams.expressions.templates import expression, name, statements
from sluicegate.streams.expressions.typed import NotTyped, Proof, TypedCode, unproven
from sluicegate.streams.reducers import NUMBERS, REDUCERS, kind_of, plus, reads_messages
from sluicegate.streams.reduction import Add, BagForm, Getter, Place

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
_START_OF_IDS = """
exactly = with_care(duplicates=duplicates)
seen = duplicates.seen
accepted, horizon, ids = seen.accepted, seen.horizon, []
accepted_at = accepted.get
"""
_HEADER = """
identity = None
for header, content in record.headers() or ():
    if header == N:
        identity = content
"""
_ID = """
if not 0 < len(identity) <= longest_id:
    unproven()
since = accepted_at(identity)
if since is not None and now - since < horizon:
    if seen.size > seen.most:
        unproven()
    duplicates.dropped += 1
    continue
"""
_NOTED = """
accepted[identity] = now
ids.append(identity)
"""
_FLUSH_IDS = """
seen.order(ids, now)
ids = []
"""
_LOOP = """
touched = groups.touched
get = groups.states.get
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
    if state is None:
        state = OPEN
        if state is None:
            CLOSED
            continue
        OPENED
    REDUCERS
    COLLECT
    touched[key] = state
    END
"""
_ADD = """
state[COUNT] = count = state[COUNT] + 1
state[LAST] = record.offset()
REDUCERS
"""
_JUDGED = """
known = state
state = [0, 0, 0, now, None, None, 0, *blank] if known is None else known.copy()
ADD
ends = X
after = state
if known is None:
    state = None
"""
_TAKE_OVER = """
answered += 1
if ends:
    ended += 1
if known is None:
    state[COUNT] = count
    state[COLUMNS:BEHIND] = after[COLUMNS:BEHIND]
else:
    all_states[key] = state
"""
_JUDGES = """
answered = ended = 0
all_states = groups.states
"""
_ENDED = """
groups.outcomes[name_of_until, "true"] += ended
groups.outcomes[name_of_until, "false"] += answered - ended
"""
_MISSING = """
if N is None:
    unproven()
"""
_SHALLOW = """
if type(N) is dict or type(N) is list:
    shallow(value)
"""
_DOCUMENT = """
try:
    flat(value)
except ValidationError:
    document(value)
"""
_WHERE = """
if not X:
    CHECKS
    left_out += 1
    PASSED
    continue
"""
_NUMBERS = """
try:
    state[TOTAL] += N
except OverflowError:
    state[TOTAL] = plus(state[TOTAL], N)
high = state[HIGH]
if high is None:
    state[LOW] = state[HIGH] = N
elif N > high:
    state[HIGH] = N
elif N < state[LOW]:
    state[LOW] = N
"""
_MAYBE_NUMBERS = """
if type(N) is int or type(N) is float:
    NUMBERS
    state[MANY] += 1
"""
_FIRST = """
if state[SLOT] is None:
    KEEP
"""
_MAYBE_FIRST = """
if state[SLOT] is None and N is not None:
    KEEP
"""
_KEEP = "state[SLOT] = N"
_KEEP_WITH_OFFSET = """
state[SLOT] = N
state[OFFSET] = state[LAST]
"""
_MAYBE_LAST = """
if N is not None:
    KEEP
"""
_ROOM = """
grown, all_more = size if state is None else state[BYTES] + size, more + size
if grown > largest_group or all_more > room:
    unproven()
"""
_OWN_BAGS = "\nown = bags[key]"
_KNOWN_BAGS = "own = None if state is None else bags[key]"
_ADDED = """
fresh = added.get(key)
if fresh is None:
    fresh = added[key] = EMPTY
fresh[INDEX].append(N)
"""
_ADDED_ALONE = """
fresh = added.get(key)
if fresh is None:
    added[key] = [[N]]
else:
    fresh[0].append(N)
"""
_APPEND = """
own[INDEX].append(N)
ADDED
"""
_ADD_ONCE = """
if S:
    own[INDEX][N] = None
    ADDED
"""
_PUT = """
if N is not None:
    put = PUT(own[INDEX], N)
    size = -S if put is None else put - S
    grown += size
    all_more += size
    if put is not None:
        ADDED
"""
_WEIGHT_ONCE = "S = 0 if own is not None and I in own[INDEX] else len(I)"
_MAYBE_WEIGHT_ONCE = "S = 0 if I is None or (own is not None and I in own[INDEX]) else len(I)"
_WEIGHT = "S = 0 if I is None else GROWTH(None if own is None else own[INDEX], I)"
_SEEN = "state[SEEN] = now"
_LINKED = """
groups.counts.links.note(state[FIRST], record)
"""
_UNTIL = "N == X"
_END = """
if X:
    groups.end(key, state, UNTIL, now)
    FULL
"""
_FULL = """
if groups.full:
    AGAIN
"""
_GIVEN = """
answer = X
if type(answer) is int or type(answer) is float:
    deadline = answer / PER
    if not LEAST <= deadline <= MOST:
        unproven()
else:
    deadline = None if answer is None else seconds(answer)
"""
_GIVEN_OR_CANCELLED = """
deadline = inf
if not CANCELS:
    GIVEN
"""
_OVER = "over = deadline is not None and groups.give_deadline(key, state, deadline, now)"
_TIMED_OUT = 'groups.fire(key, "timeout", now)'
_EARLY = """
if X:
    groups.grew(key, state, now)
"""
_FOLDED = """
message = message_of(value)
APPLY
if SIZE > most_folded:
    unproven()
"""
_APPLY = "N = apply(folds[I], unopened if state is None else state, message)"
_BEFORE = """
before = computable(state, groups.bags.get(key, [])) if state[COUNT] else None
"""
_CHANGED = """
if get(key) is state:
    groups.grew(key, state, now, before)
"""
_GROWN = """
state[BYTES], more = grown, all_more
"""


class Placing(NamedTuple):
    """Code patterns that find the group of a record. Without windows the name of the group is the key.

    `find` reads `key`. It sets `key` to the name of the group and `state` to its state; None if the group is not open.
    It changes nothing, and raises an error for a record that accept.py must process. TIME in it stands for the value of
    the field `time`. `start` runs before the records. `again` runs after a record that accept.py processed, or that
    filled its group. `moves` runs before a group is opened (`opens`), `opened` after it, and `closed` if it could not
    be opened. `joins` updates parts of the state beside those of the reducers. `passed` runs for a record for which
    `where` is false. `names` maps free names to their values. `result` makes the code for windows in which each record
    has a result; it replaces the end of the group. None for other windows.
    """

    find: str = "state = get(key)"
    opens: str = "groups.open(key, record, now)"
    start: str = ""
    again: str = ""
    moves: str = ""
    opened: str = ""
    closed: str = ""
    joins: str = ""
    passed: str = ""
    time: str | None = None
    names: Mapping[str, Any] = MappingProxyType({})
    result: Callable[[], list[ast.stmt]] | None = None


BY_KEY = Placing()


class Bagged(NamedTuple):
    """The code of a bag: the names of the local variables with its item and the item's bytes."""

    number: int
    item: str
    size: str
    form: BagForm
    maybe: bool


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
    if _tells_changes(rule) and rule.ending:
        return None
    try:
        values = _Values(rule, asks, dedupes)
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


class _Values:
    """The code that reads the fields. Without `where` and computed fields, the rule's own decoder has checked the
    types. Otherwise the code checks each field where it is used, after `where`. Raises NotTyped."""

    def __init__(self, rule: Rule, asks: bool, dedupes: bool) -> None:
        self.dedupe = rule.agent.dedupe if dedupes else None
        self._rule, self._locals, self._getters = rule, dict[tuple[str, bool], str](), dict[str, Any]()
        self.statements: list[ast.stmt] = []
        strict = rule.aggregation.on_missing != "ignore"
        numbers = [each.field for each in rule.aggregation.compute if kind_of(each).takes == "number" and strict]
        self._numbers = frozenset(numbers)
        self.code: TypedCode | None = None
        by_field = self.dedupe is not None and self.dedupe.by == "field"
        clauses = rule.reader.lets is not None or rule.ending is not None or rule.deadline is not None
        if (asks and rule.agent.where) or clauses or by_field:
            group = of_group(rule.places, rule.aggregation.correlation is not None) if rule.ending is not None else {}
            self.code = typed_code(rule.agent.let, group)
        self.where = None
        if asks and rule.agent.where and self.code is not None:
            self.where = self.code.where(clause("where", rule.agent.where).node)

    def local(self, path: str, proof: Proof, maybe: bool) -> str:
        """The local variable with the value of the field. With `maybe` it is None if the field is missing."""
        known = self._locals.get((path, maybe)) or self._locals.get((path, False))
        if known is not None:
            return known
        proof = "number" if path in self._numbers else proof
        made = self._locals[path, maybe] = f"n{len(self._locals)}"
        self.statements += statements("N = X", N=made, X=self._value(path, proof, maybe))
        if self.code is not None and not maybe and proof == "any":
            self.statements += statements(_MISSING, N=made)
        if self._rule.reader.keeps and (maybe or proof == "any"):
            self.statements += statements(_SHALLOW, N=made)
        return made

    def compute(self, fields: Iterable[str]) -> None:
        """Evaluate all computed fields. A record counts only if each of them has a value that can be encoded."""
        for field in sorted(fields):
            if not any(known == field for known, _ in self._locals):
                self.local(field, "any", True)

    def _value(self, path: str, proof: Proof, maybe: bool) -> ast.expr:
        if self.code is not None:
            parts = tuple(path.split("."))
            return self.code.optional(parts) if maybe else self.code.value(parts, proof)
        chain = self._rule.reader.chains[path]
        if chain is None:
            getter = f"w{len(self._getters)}"
            self._getters[getter] = self._rule.reader.getters[path]
            return expression("W(read)", W=getter)
        code: ast.expr = name("read")
        for attribute in chain.split("."):
            code = ast.Attribute(code, attribute, ast.Load())
        return code

    def adder(self, place: Place, add: Callable[[Place, Getter], Add]) -> str:
        """The name of the function that adds a value to the state, for reducers that are not inlined."""
        adder = f"add{place.at}"
        self._getters[adder] = add(place, lambda value: value)
        return adder

    def message(self, bag: Bagged) -> list[ast.stmt]:
        """The code that makes the item of a bag of whole messages."""
        kind = self._rule.plan.bags[bag.number]
        if kind.whole:
            return statements("I = value\nS = len(value)", I=bag.item, S=bag.size)
        if self.code is not None:
            raise NotTyped
        item, weight = f"item{bag.number}", f"weight{bag.number}"
        self._getters |= {item: kind.item, weight: partial(kind.form.growth, None)}
        return statements("I = F(read, value, 0)\nS = W(I)", I=bag.item, S=bag.size, F=item, W=weight)

    def item(self, bag: Bagged, of_field: Callable[[Any, int], Any]) -> str:
        """The name of the function that converts the value of a field to an item."""
        self._getters[f"of{bag.number}"] = of_field
        return f"of{bag.number}"

    def form(self, bag: Bagged) -> dict[str, str]:
        """The names of the functions of a bag form that is not inlined."""
        functions = {"GROWTH": bag.form.growth, "PUT": bag.form.put}
        names = {hole: f"{hole.lower()}{bag.number}" for hole in functions}
        self._getters |= {names[hole]: function for hole, function in functions.items()}
        return names

    def read(self) -> list[ast.stmt]:
        """The code that decodes the record."""
        alone = self.code is None and self._rule.reader.decode is document
        return statements(_DOCUMENT if alone else "read = decode(value)")

    def largest(self) -> int:
        return self._rule.max_record_bytes if self.code is None else self.code.largest()

    def names(self) -> dict[str, Any]:
        if self.code is None:
            return {"decode": self._rule.reader.unchecked or self._rule.reader.decode, **self._getters}
        return {**names_of(self.code, self._rule.reader.codec), **self._getters}


def _body(rule: Rule, values: _Values, asks: bool, placing: Placing) -> list[ast.stmt]:
    judged, loop, flush = rule.ending is not None, _each(rule, values, placing), _flush(rule, values)
    if flush:
        loop = statements(_FLUSHED, LOOP=loop, FLUSH=statements(flush))
    start = (_START_OF_BAGS if rule.plan.bags else "") + (_START_OF_IDS if values.dedupe is not None else "")
    return statements(
        _LOOP,
        START=statements(f"{start}\n{placing.start}\n{_JUDGES if judged else ''}\n{_quiet(rule)}"),
        LOOP=loop,
        FINISH=statements((_COUNTED if asks and rule.where is not None else "") + (_ENDED if judged else "")),
        **_SLOTS,
    )


def _flush(rule: Rule, values: _Values) -> str:
    """What the loop counts by itself, for the groups: the bytes of new items, and new ids. It is told whatever the loop
    raises."""
    return (_FLUSH_BAGS if rule.plan.bags else "") + (_FLUSH_IDS if values.dedupe is not None else "")


def _each(rule: Rule, values: _Values, placing: Placing) -> list[ast.stmt]:
    own = [place for place in rule.places if place.own]
    reducers = [made for place in own if not place.in_bag for made in _reducer(place, values)]
    items, collect = _bags(rule, values, [place for place in own if place.in_bag])
    key, ends, find = _key(rule, values), _until(rule, values), _find_group(placing, values)
    key += _identity(values)
    values.compute(needed(rule.agent))
    deadline = _read_deadline(rule, values)
    add = statements(_ADD, REDUCERS=[stage("reducers"), *reducers] if reducers else [], **_SLOTS)
    judged = _judged(rule, values, add)
    if judged:
        behind = ast.Constant(COLUMNS + sum(place.size for place in own))
        add, ends = statements(_TAKE_OVER, BEHIND=behind, **_SLOTS), name("ends")
    flush, room = statements(_flush(rule, values)), _NEW_ROOM if collect else ""
    before, changed = (_BEFORE, _CHANGED) if _tells_changes(rule) else ("", "")
    return statements(
        _EACH,
        READ=values.read(),
        WHERE=_where(values, placing),
        VALUES=[stage("values and key"), *values.statements, *key, *deadline],
        FIND=find,
        ITEMS=items,
        FLUSH=flush,
        AGAIN=statements(room + placing.again),
        MOVES=[stage("group"), *statements(placing.moves)],
        OPEN=expression(placing.opens),
        CLOSED=[*(flush if placing.closed else []), *statements(placing.closed + room + placing.again)],
        OPENED=statements(placing.opened + (_OWN_BAGS if collect else "")),
        JUDGED=[*judged, *_folded(rule)],
        REDUCERS=[*statements(before, **_SLOTS), *add, *_more(rule, values, placing)],
        COLLECT=collect,
        END=[*_end(rule, ends, placing), *statements(changed)],
        **_SLOTS,
    )


def _bags(rule: Rule, values: _Values, places: Sequence[Place]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The code that makes the items of a record and looks for room for them, and the code that adds them."""
    bags = [_bagged(rule, place, values) for place in places]
    items = [made for _, statement in bags for made in statement]
    collect = [made for bag, _ in bags for made in _collected(bag, len(bags), values)]
    if (values.code or rule.reader.unchecked) and any(map(reads_messages, rule.aggregation.compute)):
        items = [*statements(_DOCUMENT), *items]
    if bags:
        items += _sizes([bag for bag, _ in bags], values)
        collect = [stage("bags"), *collect, *statements(_GROWN, **_SLOTS)]
    return [stage("items of bags"), *items] if items else [], collect


def _more(rule: Rule, values: _Values, placing: Placing) -> list[ast.stmt]:
    """What changes with a record beside its reducers."""
    seen, linked = rule.completion.since_last < inf, rule.reader.traced and placing.result is None
    parts = [placing.joins, _SEEN if seen else "", _LINKED if linked else "", _NOTED if values.dedupe else ""]
    return statements("\n".join(parts), **_SLOTS)


def _identity(values: _Values) -> list[ast.stmt]:
    """The id of the record, which is no duplicate."""
    dedupe = values.dedupe
    if dedupe is None:
        return []
    if dedupe.by == "field":
        local = values.local(dedupe.name or "", "any", False)
        code = statements("identity = N.encode() if type(N) is str else key_text(N)", N=local)
    else:
        code = statements("identity = record.key()" if dedupe.by == "key" else _HEADER, N=ast.Constant(dedupe.name))
    return [stage("dedupe"), *code, *statements(_ID)]


def _judged(rule: Rule, values: _Values, add: list[ast.stmt]) -> list[ast.stmt]:
    """The code that evaluates an `until` expression. It sees the group with the record."""
    if rule.ending is None or values.code is None:
        return []
    return [stage("until"), *statements(_JUDGED, ADD=add, X=values.code.condition(rule.ending.node))]


def _folded(rule: Rule) -> list[ast.stmt]:
    """The code that calls the user reducers. It is the last code that may raise an error, so a reducer is called again
    only for a record that a reducer refuses."""
    names = [f"folded{fold.slot}" for fold in rule.plan.folds]
    if not names:
        return []
    calls = [made for at, one in enumerate(names) for made in statements(_APPLY, N=one, I=ast.Constant(at))]
    size = expression(" + ".join(f"len({one})" for one in names))
    return [stage("user reducers"), *statements(_FOLDED, APPLY=calls, SIZE=size)]


def _find_group(placing: Placing, values: _Values) -> list[ast.stmt]:
    time: dict[str, Any] = {} if placing.time is None else {"TIME": values.local(placing.time, "any", True)}
    find = statements(placing.find, **time)
    return find if placing.find == BY_KEY.find else [stage("window"), *find]


_SLOTS: dict[str, Any] = {"COUNT": ast.Constant(COUNT), "LAST": ast.Constant(LAST), "BYTES": ast.Constant(BYTES)}
_SLOTS |= {"SEEN": ast.Constant(SEEN), "FIRST": ast.Constant(FIRST), "COLUMNS": ast.Constant(COLUMNS)}
_COUNTED = """
groups.outcomes["where", "true"] += len(records) - left_out - aside
groups.outcomes["where", "false"] += left_out
"""


def _where(values: _Values, placing: Placing) -> list[ast.stmt]:
    checks = values.code.checks() if values.code is not None else []
    if values.where is None or values.code is None:
        return checks
    passed_over, passed = values.code.checks(passed_over=True), statements(placing.passed)
    return [stage("where"), *statements(_WHERE, X=values.where, CHECKS=passed_over, PASSED=passed), *checks]


def _key(rule: Rule, values: _Values) -> list[ast.stmt]:
    if not rule.aggregation.key:
        return statements("key = record.key()")
    local = values.local(rule.aggregation.key, "any", False)
    return statements("key = N.encode() if type(N) is str else key_text(N)", N=local)


def _read_deadline(rule: Rule, values: _Values) -> list[ast.stmt]:
    """The code that reads the deadline from the record."""
    if rule.deadline is None or values.code is None:
        return []
    cancels, gives = rule.deadline.cancels, rule.deadline.gives
    condition = None if cancels is None else values.code.condition(cancels)
    holes = zip(("PER", "LEAST", "MOST"), map(ast.Constant, rule.deadline.numbers), strict=True)
    code = statements(_GIVEN, X=values.code.result(gives), **dict(holes))
    if condition is not None:
        code = statements(_GIVEN_OR_CANCELLED, CANCELS=condition, GIVEN=code)
    return [stage("deadline"), *code]


def _until(rule: Rule, values: _Values) -> ast.expr | None:
    until = rule.aggregation.until
    if not isinstance(until, Until):
        return None
    local = values.local(until.field, "any", True)
    kind = "is" if isinstance(until.equals, bool) else "is not"
    return expression(f"{_UNTIL} and type(N) {kind} bool", N=local, X=ast.Constant(until.equals))


def _reducer(place: Place, values: _Values) -> Iterator[ast.stmt]:
    slots = kind_of(place.reducer).slots
    if slots is None:
        return
    if slots.add is None:
        yield from statements("state[SLOT] = N", SLOT=ast.Constant(place.at), N=f"folded{place.at}")
        return
    is_number = kind_of(place.reducer).takes == "number"
    local = values.local(str(place.reducer.field), "number" if is_number else "any", place.lenient)
    at = {"TOTAL": 0, "SLOT": 0, "LOW": 1, "OFFSET": 1, "HIGH": 2, "MANY": 3}
    holes: dict[str, Any] = {hole: ast.Constant(place.at + number) for hole, number in at.items()}
    holes |= {"N": local, **_SLOTS}
    if slots is NUMBERS:
        code = statements(_NUMBERS, **holes)
        yield from statements(_MAYBE_NUMBERS, NUMBERS=code, **holes) if place.lenient else code
    elif slots in (REDUCERS["first"].slots, REDUCERS["last"].slots):
        keep = statements(_KEEP_WITH_OFFSET if place.merged else _KEEP, **holes)
        if slots is REDUCERS["first"].slots:
            yield from statements(_MAYBE_FIRST if place.lenient else _FIRST, KEEP=keep, **holes)
        else:
            yield from statements(_MAYBE_LAST, KEEP=keep, **holes) if place.lenient else keep
    else:
        yield from statements("ADD(state, N)", ADD=values.adder(place, slots.add), N=local)


def _bagged(rule: Rule, place: Place, values: _Values) -> tuple[Bagged, list[ast.stmt]]:
    """The bag, and the code that makes its item."""
    index, field = place.bag, place.reducer.field
    bag, item, size = rule.plan.bags[index], f"i{index}", f"s{index}"
    maybe = field is not None and place.lenient
    made = Bagged(index, item, size, bag.form, maybe)
    if field is None:
        return made, values.message(made)
    is_number = kind_of(place.reducer).takes == "number"
    local = values.local(field, "number" if is_number else "any", place.lenient)
    if bag.of_field is not None:
        code = statements("I = OF(N, record.offset())", I=item, N=local, OF=values.item(made, bag.of_field))
    elif bag.form is SET:
        code = statements("I = encode(N) if type(N) is str or type(N) is int else same(N)", I=item, N=local)
    else:
        code = statements("I = N\nS = len(encode(N))", I=item, S=size, N=local)
    nothing = statements("I = None\nS = 0", I=item, S=size)
    return made, statements("if N is None:\n    A\nelse:\n    B", N=local, A=nothing, B=code) if maybe else code


def _sizes(bags: list[Bagged], values: _Values) -> list[ast.stmt]:
    """The code that computes how many bytes the items add to the group."""
    code = statements(_KNOWN_BAGS)
    for bag in bags:
        if isinstance(bag.form, ListForm):
            continue
        names = {} if bag.form is SET else values.form(bag)
        once = _MAYBE_WEIGHT_ONCE if bag.maybe else _WEIGHT_ONCE
        pattern = once if bag.form is SET else _WEIGHT
        code += statements(pattern, I=bag.item, S=bag.size, INDEX=ast.Constant(bag.number), **names)
    sizes: list[ast.expr] = [name(bag.size) for bag in bags]
    size = reduce(lambda one, other: ast.BinOp(one, ast.Add(), other), sizes)
    return [*code, *statements("size = X", X=size), *statements(_ROOM, **_SLOTS)]


def _collected(bag: Bagged, bags: int, values: _Values) -> list[ast.stmt]:
    empty = ast.List([ast.List([], ast.Load()) for _ in range(bags)], ast.Load())
    holes: dict[str, Any] = {"N": bag.item, "S": bag.size, "INDEX": ast.Constant(bag.number), "EMPTY": empty}
    holes["ADDED"] = statements(_ADDED_ALONE if bags == 1 else _ADDED, **holes)
    if bag.form is SET:
        return statements(_ADD_ONCE, **holes)
    if not isinstance(bag.form, ListForm):
        return statements(_PUT, **holes, **values.form(bag))
    code = statements(_APPEND, **holes)
    return statements("if N is not None:\n    A", N=bag.item, A=code) if bag.maybe else code


def _tells_changes(rule: Rule) -> bool:
    """Whether a group has an early result when its fields change."""
    return rule.aggregation.emit is not None and bool(rule.aggregation.emit.on)


def _quiet(rule: Rule) -> str:
    return "quiet = groups.early.quiet" if rule.aggregation.emit is not None else ""


def _grows(rule: Rule) -> list[ast.stmt]:
    """The code that emits an early result of a group that stays open."""
    emit = rule.aggregation.emit
    if emit is None or emit.on:
        return []
    if emit.count is not None:
        return statements(_EARLY, X=expression("not count % N", N=ast.Constant(emit.count)))
    return statements(_EARLY, X=expression("key in quiet"))


def _goes_on(rule: Rule) -> list[ast.stmt]:
    """The code for a group that neither its count nor `until` ends: the deadline from the record may have passed."""
    if rule.deadline is None:
        return _grows(rule)
    return [ast.If(name("over"), statements(_TIMED_OUT), _grows(rule))]


def _end(rule: Rule, ends: ast.expr | None, placing: Placing) -> list[ast.stmt]:
    """The code that ends the group with this record, or lets it stay open."""
    if placing.result is not None:
        return [stage("result"), *placing.result()]
    most, goes_on = rule.completion.most, _goes_on(rule)
    over = statements(_OVER) if rule.deadline is not None else []
    if ends is None and most == inf:
        return [*over, stage("end"), *goes_on] if goes_on else []
    full = [] if most == inf else [expression("count >= X", X=ast.Constant(int(most)))]
    made = [*over, stage("end")]
    if ends is not None and not isinstance(ends, ast.Name):
        made += statements("ends = X", X=ends)
    tests = [*full, *([name("ends")] if ends is not None else [])]
    test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), tests)
    until = name("ends") if ends is not None else ast.Constant(False)
    again = statements(placing.again)
    filled = statements(_FULL, AGAIN=again) if again else []
    made += statements(_END, X=test, UNTIL=until, FULL=filled)
    if isinstance(made[-1], ast.If):
        made[-1].orelse = goes_on
    return made
