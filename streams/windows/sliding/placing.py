"""Generates the code with which the compiled loop takes a record into the sliding windows of its key, and makes its
result (streams/aggregation/compiled/loop.py).

The code handles the records of a key in the order of their times, while there is room. All other records are processed
with every check.
"""

import ast
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sluicegate.streams.aggregation.clauses import clause
from sluicegate.streams.aggregation.compiled.placing import Placing
from sluicegate.streams.aggregation.events import WINDOW, Closing, Fire
from sluicegate.streams.aggregation.groups import LONGEST_KEY
from sluicegate.streams.aggregation.layout import TRACE
from sluicegate.streams.aggregation.links import traceparent
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.expressions.scope import NamePath, roots
from sluicegate.streams.expressions.templates import expression, name, statements
from sluicegate.streams.expressions.typed import NotTyped, Operand, TypedCode
from sluicegate.streams.windows.placing import PASSED
from sluicegate.streams.windows.sliding.totals import (
    READ_AT,
    TOTALS,
    USUAL,
    Earliest,
    EntryLayout,
    Greatest,
    Latest,
    Least,
    PlacedTotal,
    SumTotal,
    placed_totals,
)
from sluicegate.streams.windows.tumbling import NAMING

_START = """
event = groups.event
furthest = latest_of(groups, now)
size, most_records, grace, _, _, spare = groups.reach
soon = groups.soon
plainly = groups.tells_plainly
keep, denied = groups.fresh.append, 0
"""
_SEND, _EMIT = "groups.events.append", "groups.emitter.tell"
_AGAIN = """
line_of, order, watermark = groups.line_of(len(records)), groups.order, event.watermark
"""
_FIND = """
line = line_of(key)
if line is not None:
    entries = line.entries
    if len(entries) >= most_items or time < entries[-1][0]:
        unproven()
    key = line.key
elif key is None or len(key) > longest_key or time < 0:
    unproven()
leads = time > watermark
if time > furthest or (not leads and time + grace < watermark):
    unproven()
offset = record.offset()
"""
_MOVES = """
if leads:
    event.watermark = watermark = time
"""
_STAMPED = """
origin, time = origin_and_time(record)
if not event.awake(origin):
    unproven()
"""
_ORIGIN_MOVES = """
event.reading = origin
if event.read(time):
    watermark = event.watermark
    if order and order[0][0] <= watermark:
        groups.close_passed(now)
        line = line_of(key)
        if line is not None:
            entries = line.entries
"""
_RESULT = """
if line is None:
    line = groups.new_line(key, entry)
    entries = line.entries
else:
    entries.append(entry)
keep(entry)
at, first = line.newest, line.first
if first is not None:
    first.append(entry)
PARTS
ENTERS
UNUSUAL
begins = time - size
while LEFT:
    gone = entries[at]
    if first is not None and first[0] is gone:
        first.popleft()
    LEAVES
    at += 1
line.newest = at
many = len(entries) - at
EXPECTS
TELLS
CLOSES
"""
_CLOSES = """
if leads and order and order[0][0] <= time:
    groups.close_passed(now)
"""
_EXPECTS = """
line.start = entries[at][0]
if len(entries) > spare and not 0 <= line.due <= time + soon:
    groups.expect(key, line)
"""
_DENIED = """
groups.outcomes["having", "false"] += denied
"""
_CAREFULLY = """
state = line.state(entry)
state[TRACE] = traceparent(record)
groups.tell_window(key, state, [], now, BEGINS)
"""
_PLAINLY = """
CHECKED
if PLAIN:
    SENDS
else:
    CAREFULLY
"""
_UNUSUAL = """
if not USUAL:
    line.unusual = True
"""
_DECIDED = """
CHECKED
try:
    holds = HAVING if PLAIN else None
except Exception:
    holds = None
if holds is False:
    denied += 1
else:
    TELLS
"""
_HOLDS = """
if holds:
    COUNTS
    LATE
    SENDS
else:
    CAREFULLY
"""
_COUNTS = 'groups.outcomes["having", "true"] += 1'
_SENDS = """
opener = entries[at] if first is None else first[0]
trace = traceparent(record) if record.headers() else None
opened = opener[READ_AT]
closing = Closing(BEGINS, time, "event", watermark, 1, -1, False, True)
closed = now if now >= opened else opened
send(Fire(key, many, reason, opener[1], offset, opened, closed, trace, VALUES, (), None, closing))
"""
_SUM_ENTERS = """
amount = entry[SLOT]
if type(amount) is int:
    SUM.integers += amount
else:
    SUM.add(amount)
"""
_SUM_LEAVES = """
amount = gone[SLOT]
if type(amount) is int:
    SUM.integers -= amount
else:
    SUM.remove(amount)
"""
_BEST_ENTERS = """
amount = entry[SLOT]
while BEST and WORSE:
    BEST.pop()
BEST.append(entry)
"""
_BEST_LEAVES = """
if BEST and BEST[0] is gone:
    BEST.popleft()
"""
_TOTAL = "N = SUM.integers if not SUM.many else SUM.value"
_FINITE = "lowest < N < highest"
_NUMBER = "T if lowest < (T := N) < highest else unproven()"
_LIMIT = 10**300
"""A result can represent a total up to this limit, and a mean of it. To compare two integers takes a third of the time
that it takes to compare an integer and a double."""
_IS_USUAL, _IS_USUAL_OR_NONE = "least < entry[SLOT] < greatest", "entry[SLOT] is None or least < entry[SLOT] < greatest"
_NUMBERS = frozenset(("count", "sum", "mean", "min", "max"))
_BEFORE, _TOO_MANY = "entries[at][0] < begins", "len(entries) - at > most_records"
_WORSE = {Least: "BEST[-1][SLOT] >= amount", Greatest: "BEST[-1][SLOT] <= amount", Earliest: "False", Latest: "True"}

_INLINE = frozenset((SumTotal, Least, Greatest, Earliest, Latest))
"""The totals that are inlined."""


def in_line(rule: Rule, timed: Placing) -> Placing | None:
    """The code that takes a record into the line of its key. `timed` reads its time. None: the rule has no loop."""
    until = rule.ending is not None or rule.until is not None
    if rule.plan.bags or rule.plan.folds or until or rule.aggregation.emit is not None:
        return None
    having, merged = _having(rule), _merged(rule)
    names: dict[str, Any] = {"Closing": Closing, "Fire": Fire, "traceparent": traceparent, "reason": WINDOW}
    names |= {"lowest": -_LIMIT, "highest": _LIMIT, "least": -USUAL, "greatest": USUAL}
    names |= having.names if having is not None else {}
    names |= {"most_items": rule.aggregation.max_items, "longest_key": LONGEST_KEY - NAMING}
    return Placing(
        find=(_STAMPED if merged else timed.find) + _FIND,
        start=f"{_START}send = {_SEND if _decides(rule, having) else _EMIT}\n{_AGAIN}",
        again=_AGAIN,
        moves=_ORIGIN_MOVES if merged else _MOVES,
        finish=_DENIED if having is not None else "",
        passed=PASSED + _AGAIN,
        time=timed.time,
        names={**timed.names, **names},
        result=lambda: _result(rule),
    )


class _Part:
    """The code of one total. `at` is the index of the total. A total that is not inlined is called. `inner` is the
    local variable with FieldTotal.inner."""

    def __init__(self, at: int, total: PlacedTotal) -> None:
        self.place, self.kind, self.local = total.place, total.kind, f"part{at}"
        self.late, self.bounded = total.late, total.bounded
        self.inline, self._counts = self.kind in _INLINE, self.kind is SumTotal and total.place.lenient
        inlined = f"sum{at}" if self.kind is SumTotal else f"best{at}"
        self.inner = inlined if self.inline and not self._counts else self.local
        slot = ast.Constant(total.slot)
        self._holes: dict[str, Any] = {"SLOT": slot, "PART": self.local, "SUM": inlined, "BEST": inlined}

    def local_sum(self) -> list[ast.stmt]:
        return self._code("SUM = PART.sum") if self._counts else []

    def enters(self) -> list[ast.stmt]:
        if not self.inline:
            return self._code("PART.append(entry)")
        if self.kind is SumTotal:
            code = self._code(_SUM_ENTERS + ("PART.many += 1" if self.place.lenient else ""))
        else:
            worse = expression(_WORSE[self.kind], **self._holes)  # type: ignore[index]
            code = statements(_BEST_ENTERS, WORSE=worse, **self._holes)
        return self._if_any(code, "entry[SLOT] is not None")

    def leaves(self) -> list[ast.stmt]:
        if not self.inline:
            return self._code("PART.remove(gone)")
        if self.kind is not SumTotal:
            return self._code(_BEST_LEAVES)
        code = self._code(_SUM_LEAVES + ("PART.many -= 1" if self.place.lenient else ""))
        return self._if_any(code, "gone[SLOT] is not None")

    def usual(self) -> list[ast.expr]:
        """The conditions that the entry has no number beyond USUAL. Only a late total needs them."""
        pattern = _IS_USUAL_OR_NONE if self.place.lenient else _IS_USUAL
        return [expression(pattern, SLOT=ast.Constant(at)) for at in self.bounded]

    def total(self) -> list[ast.stmt]:
        """The code that computes the total of numbers."""
        return self._code(_TOTAL, N=f"sum_{self.local}")

    def _code(self, pattern: str, **more: Any) -> list[ast.stmt]:
        return statements(pattern, **self._holes, **more)

    def _if_any(self, code: list[ast.stmt], condition: str) -> list[ast.stmt]:
        """The code for a record that has the field. Only a field that may be missing needs the condition."""
        if not self.place.lenient:
            return code
        return [ast.If(expression(condition, **self._holes), code, [])]

    def value(self, kind: str) -> ast.expr:
        """The value of a reducer of this kind in the result."""
        if kind == "sum":
            return name(f"sum_{self.local}")
        if kind == "mean":
            pattern = "N / PART.many if PART.many else None" if self.place.lenient else "N / many"
            return expression(pattern, N=f"sum_{self.local}", **self._holes)
        pattern = "BEST[0][SLOT] if BEST else None" if self.place.lenient else "BEST[0][SLOT]"
        return expression(pattern, **self._holes)


class _Having(NamedTuple):
    """The code of `having`, the values of its free names, and the fields of a result that it reads."""

    code: ast.expr
    names: Mapping[str, Any]
    fields: Collection[str]


def _result(rule: Rule) -> list[ast.stmt]:
    """The code that adds the record to its line, and makes the result."""
    parts, window = _parts(rule), rule.aggregation.window
    assert window is not None
    begins: ast.expr = name("begins")
    outside = [expression(_BEFORE)] if window.size else []
    if window.last:
        begins, outside = expression("line.start"), [*outside, expression(_TOO_MANY)]
    own, bounded = [part for part in parts if not part.late], [made for part in parts for made in part.usual()]
    return statements(
        _RESULT,
        PARTS=_unpacked(own, "line.inner"),
        LEFT=_joined(ast.Or(), outside),
        ENTERS=[made for part in own for made in part.enters()],
        UNUSUAL=statements(_UNUSUAL, USUAL=_joined(ast.And(), bounded)) if bounded else [],
        LEAVES=[made for part in own for made in part.leaves()],
        EXPECTS=statements(_EXPECTS) if window.last else [],
        TELLS=_tells(rule, parts, begins),
        CLOSES=statements("" if _merged(rule) else _CLOSES),
    )


def _merged(rule: Rule) -> bool:
    """Whether the records come from several origins. Such a record moves the watermark before it is taken, and even if
    it is refused."""
    return rule.aggregation.window is not None and bool(rule.aggregation.window.origins)


def _joined(joint: ast.boolop, conditions: list[ast.expr]) -> ast.expr:
    return conditions[0] if len(conditions) == 1 else ast.BoolOp(joint, conditions)


def _unpacked(parts: Sequence[_Part], inner: str) -> list[ast.stmt]:
    """The code that reads these totals of the window."""
    unpacked = statements(f"{''.join(f'{part.inner}, ' for part in parts)} = {inner}") if parts else []
    return [*unpacked, *(made for part in parts for made in part.local_sum())]


def _parts(rule: Rule) -> list[_Part]:
    layout = EntryLayout(rule.aggregation.compute, rule.aggregation.on_missing == "ignore")
    return [_Part(at, total) for at, total in enumerate(totals_of(rule, layout))]


def totals_of(rule: Rule, layout: EntryLayout) -> list[PlacedTotal]:
    """The totals of the rule. Where the loop decides about `having`, those that `having` does not read are late."""
    having, compute = _having(rule), rule.aggregation.compute
    decisive = {reducer.name for reducer in compute} if having is None else having.fields
    return placed_totals(compute, rule.aggregation.on_missing == "ignore", layout, decisive)


def _tells(rule: Rule, parts: Sequence[_Part], begins: ast.expr) -> list[ast.stmt]:
    """The code that makes the result, if `having` does not decide against it."""
    carefully, values = statements(_CAREFULLY, BEGINS=begins, TRACE=ast.Constant(TRACE)), _values(rule, parts)
    having, inlined = _having(rule), len(values) == len(rule.aggregation.compute)
    sums, late = [part for part in parts if part.kind is SumTotal], [part for part in parts if part.late]
    totals = [part for part in sums if not part.late]
    finite = [expression(_FINITE, N=f"sum_{part.local}") for part in totals]
    usual = [expression("not line.unusual")] if any(part.bounded for part in parts) else []
    fields = ast.Dict([ast.Constant(field) for field in values], [*values.values()])
    holes: dict[str, Any] = {
        "CHECKED": [made for part in totals for made in part.total()],
        "PLAIN": _joined(ast.And(), [name("plainly"), *finite, *usual]),
        "CAREFULLY": carefully,
        "SENDS": statements(_SENDS, VALUES=fields, BEGINS=begins, READ_AT=ast.Constant(READ_AT)),
    }
    if having is None:
        return statements(_PLAINLY, **holes) if inlined else carefully
    late_totals = [made for part in sums if part.late for made in part.total()]
    holes["LATE"] = [*_unpacked(late, "line.late_totals()"), *late_totals]
    holes["COUNTS"] = statements(_COUNTS) if _decides(rule, having) else []
    holds = statements(_HOLDS, **holes) if inlined else carefully
    return statements(_DECIDED, HAVING=having.code, TELLS=holds, **holes)


def _decides(rule: Rule, having: _Having | None) -> bool:
    """Whether the loop decides all about a result. Otherwise the expressions of the agent decide about it."""
    return rule.results is None or (rule.results.routes is None and having is not None)


def _values(rule: Rule, parts: Sequence[_Part]) -> dict[str, ast.expr]:
    """The code of the computed fields that are inlined."""
    by_slot = {(part.place.at, part.kind): part for part in parts}
    at = {place.reducer.name: place.at for place in rule.places}
    values: dict[str, ast.expr] = {}
    for reducer in rule.aggregation.compute:
        part = by_slot.get((at[reducer.name], TOTALS.get(reducer.kind)))
        if reducer.kind == "count":
            values[reducer.name] = name("many")
        elif part is not None and part.inline:
            values[reducer.name] = part.value(reducer.kind)
    return values


@lru_cache(1)  # its loop asks for it several times, and so does each claim
def _having(rule: Rule) -> _Having | None:
    """None: no `having`, or its code cannot be made. It reads numbers that a result can represent, and nothing else."""
    if not rule.agent.having or rule.results is None:
        return None
    compute, lenient = rule.aggregation.compute, rule.aggregation.on_missing == "ignore"
    layout = EntryLayout(compute, lenient)
    parts = [_Part(at, total) for at, total in enumerate(placed_totals(compute, lenient, layout, ()))]
    kinds = {"count": "count", **{reducer.name: reducer.kind for reducer in compute}}
    known = dict[NamePath, Operand]()
    for at, (field, value) in enumerate({"count": name("many"), **_values(rule, parts)}.items()):
        if kinds[field] in _NUMBERS:
            proven = kinds[field] in ("count", "sum") or (kinds[field] == "mean" and not lenient)
            number = value if proven else expression(_NUMBER, T=f"number{at}", N=value)
            known[field,] = Operand(number, "number", near=True)
    node = clause("having", rule.agent.having).node
    try:
        code = TypedCode({}, roots(node), known, roots(node))
        made = code.condition(node)
    except NotTyped:
        return None
    return _Having(made, code.constants(), roots(node)) if code.largest() >= rule.max_record_bytes else None
