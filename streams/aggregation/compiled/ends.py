"""The code that ends a group with a record, or lets it stay open."""

import ast
from math import inf

from sluicegate.streams.agent import Until
from sluicegate.streams.aggregation.compiled.compiler import stage
from sluicegate.streams.aggregation.compiled.placing import Placing
from sluicegate.streams.aggregation.compiled.values import RecordValues
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.expressions.templates import expression, name, statements

_JUDGED = """
known = state
BEFORE
state = [0, 0, 0, now, None, None, 0, *blank] if known is None else known.copy()
ADD
ends = X
after = state
if known is None:
    state = None
"""
TAKE_OVER = """
answered += 1
if ends:
    ended += 1
if known is None:
    state[COUNT] = count
    state[COLUMNS:BEHIND] = after[COLUMNS:BEHIND]
else:
    all_states[key] = state
"""
JUDGES = """
answered = ended = 0
all_states = groups.states
"""
ENDED = """
groups.outcomes[name_of_until, "true"] += ended
groups.outcomes[name_of_until, "false"] += answered - ended
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
BEFORE = """
before = computable(state, groups.bags.get(key, [])) if state[COUNT] else None
"""
_BEFORE_JUDGED = """
before = None if known is None else computable(known, groups.bags.get(key, []))
"""
CHANGED = """
if get(key) is state:
    groups.grew(key, state, now, before)
"""


def tells_changes(rule: Rule) -> bool:
    """Whether a group has an early result when its fields change."""
    return rule.aggregation.emit is not None and bool(rule.aggregation.emit.on)


def quiet_code(rule: Rule) -> str:
    return "quiet = groups.early.quiet" if rule.aggregation.emit is not None else ""


def judged_code(rule: Rule, values: RecordValues, add: list[ast.stmt]) -> list[ast.stmt]:
    """The code that evaluates an `until` expression. It sees the group with the record."""
    if rule.ending is None or values.code is None:
        return []
    before = statements(_BEFORE_JUDGED if tells_changes(rule) else "")
    judged = statements(_JUDGED, BEFORE=before, ADD=add, X=values.code.condition(rule.ending.node))
    return [stage("until"), *judged]


def deadline_code(rule: Rule, values: RecordValues) -> list[ast.stmt]:
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


def until_code(rule: Rule, values: RecordValues) -> ast.expr | None:
    until = rule.aggregation.until
    if not isinstance(until, Until):
        return None
    local = values.local(until.field, "any", True)
    kind = "is" if isinstance(until.equals, bool) else "is not"
    return expression(f"{_UNTIL} and type(N) {kind} bool", N=local, X=ast.Constant(until.equals))


def end_code(rule: Rule, ends: ast.expr | None, placing: Placing) -> list[ast.stmt]:
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


def _goes_on(rule: Rule) -> list[ast.stmt]:
    """The code for a group that neither its count nor `until` ends: the deadline from the record may have passed."""
    if rule.deadline is None:
        return _grows(rule)
    return [ast.If(name("over"), statements(_TIMED_OUT), _grows(rule))]


def _grows(rule: Rule) -> list[ast.stmt]:
    """The code that emits an early result of a group that stays open."""
    emit = rule.aggregation.emit
    if emit is None or emit.on:
        return []
    if emit.count is not None:
        return statements(_EARLY, X=expression("not count % N", N=ast.Constant(emit.count)))
    return statements(_EARLY, X=expression("key in quiet"))
