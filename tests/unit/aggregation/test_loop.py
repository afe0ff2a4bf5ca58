"""The compiled loop of a rule gives what the careful way gives, and the comparison finds it when a stage does not."""

import sys
from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from sluicegate.schemas import codec
from sluicegate.schemas.json import Field, FieldDecoder, wanted
from sluicegate.streams.agent import Agent, Aggregation, Correlation, DataDeadline, Emit, Reducer, Until
from sluicegate.streams.aggregation import clauses
from sluicegate.streams.aggregation.accept import accept, carefully
from sluicegate.streams.aggregation.compiled import group_code, values
from sluicegate.streams.aggregation.compiled.loop import loop_of
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.taking import exactly, fill
from sluicegate.streams.expressions import typed
from sluicegate.streams.expressions.values import MAX_LENGTH
from sluicegate.streams.windows import near, placing, sessions
from sluicegate.streams.windows.sliding import placing as sliding
from sluicegate.streams.windows.sliding.groups import SlidingGroups
from tests.unit.aggregation.patterns import modules_of, pattern, replace_pattern
from tests.unit.aggregation.random_rules import Both, compare, with_changes, with_sliding_windows, with_user_reducers
from tests.unit.aggregation.turning import an_agent, record

SEEDS = 200
# 1048: records of a group that is full, behind the one that filled it. 1367: a user reducer makes too large a value.
OF_A_MUTANT = (1048, 1367, *range(200))


def test_the_loop_gives_what_the_careful_way_gives() -> None:
    loops = sum(map(compare, range(SEEDS)))
    assert loops > SEEDS * 0.7


@pytest.mark.parametrize("seed", [8745, 8901, 8988])
def test_dead_letters_and_results_are_in_the_order_of_their_records_while_a_window_is_full(seed: int) -> None:
    assert compare(seed)


def differs(more: Callable[[Agent], Agent] = lambda agent: agent) -> bool:
    for seed in OF_A_MUTANT:
        try:
            compare(seed, more=more)
        except Exception:
            return True
    return False


MUTANTS: dict[str, tuple[Any, ...]] = {
    "size": ("_EACH", ("if len(value) > most:", "if False:")),
    "the careful way": ("_EACH", ("        exactly(groups, record, now)\n", "")),
    "count": ("_ADD", ("count = state[COUNT] + 1", "count = state[COUNT] + 2")),
    "newest": ("_ADD", ("state[LAST] = record.offset()\n", "")),
    "touched": ("_TAKES", ("touched[key] = state\n", "")),
    "where": ("_WHERE", ("not X", "False")),
    "fields that where does not look at": ("_WHERE", ("    CHECKS\n", "")),
    "outcomes": ("_COUNTED", ("- left_out - aside", "- left_out")),
    "sum": ("_NUMBERS", ("    state[TOTAL] += N\n", "    state[TOTAL] = N\n")),
    "least": ("_NUMBERS", ("elif N < state[LOW]", "elif N <= state[LOW]:\n    pass\nelif N > state[LOW]")),
    "greatest": ("_NUMBERS", ("elif N > high", "elif N >= 10**400")),
    "a number that is missing": ("_MAYBE_NUMBERS", ("type(N) is int", "type(N) is bool or type(N) is int")),
    "first": ("_FIRST", ("if state[SLOT] is None:", "if True:")),
    "last": ("_MAYBE_LAST", ("if N is not None:", "if True:")),
    "room in the group": ("_ROOM", ("grown > largest_group", "False")),
    "room in the partition": ("_ROOM", ("all_more > room", "False")),
    "room behind a record with care": ("_NEW_ROOM", ("groups.most_bytes - groups.bytes", "groups.most_bytes")),
    "new items": ("_ADDED", ("fresh[INDEX].append(N)", "fresh[INDEX].append(0)")),
    "new items of the only bag": ("_ADDED_ALONE", ("fresh[0].append(N)", "pass")),
    "the first new item of the only bag": ("_ADDED_ALONE", ("[[N]]", "[[]]")),
    "items once": ("_ADD_ONCE", ("if S:", "if True:")),
    "an item that the group has": ("_WEIGHT_ONCE", ("own is not None and I in own[INDEX]", "False")),
    "the same of a field that may be missing": (
        "_MAYBE_WEIGHT_ONCE",
        ("(own is not None and I in own[INDEX])", "False"),
    ),
    "bytes of a group": ("_GROWN", ("state[BYTES], more = grown, all_more", "more = all_more")),
    "what the loop counts by itself": ("_FLUSHED", ("FLUSH", "pass")),
    "bytes before a record with care": ("_FLUSH_BAGS", ("groups.bytes += more", "pass")),
    "bytes that are counted once": ("_FLUSH_BAGS", ("more = 0", "pass")),
    "bytes of what was put": ("_PUT", ("-S if put is None else put - S", "S")),
    "time of the newest": ("_SEEN", ("state[SEEN] = now", "pass")),
    "whole messages": ("DOCUMENT", ("flat(value)", "pass")),
    "a duplicate": ("_ID", ("identity in accepted", "False")),
    "a duplicate of the same batch": ("NOTED", ("accepted[identity] = now", "pass")),
    "an id that is old": ("_ID", ("now - accepted[identity] >= horizon", "False")),
    "an id that may be forgotten": ("_ID", ("seen.size > seen.most", "False")),
    "a long id": ("_ID", ("not 0 < len(identity) <= longest_id", "False")),
    "dropped": ("_ID", ("duplicates.dropped += 1", "pass")),
    "an id that is missing": ("_TEXT", ("unproven() if N is None else ", "")),
    "the id in a header": ("_HEADER", ("header == N", "True")),
    "ids before a record with care": ("FLUSH_IDS", ("seen.order_newest(ordered, now)", "len(accepted)")),
    "ids that are noted once": ("NEW_IDS", ("ordered = len(accepted)", "pass")),
    "until": ("_UNTIL", ("N == X", "N != X")),
    "end": ("_END", ("if X:", "if False:")),
    "a group that is full": ("_FULL", ("groups.full", "False")),
    "missing": ("_MISSING", ("if N is None:", "if False:")),
    "first and last of merged groups": ("_KEEP_WITH_OFFSET", ("state[OFFSET] = state[LAST]", "pass")),
    "deadline": ("_GIVEN", ("seconds(answer)", "seconds(answer) + 1")),
    "a record that takes the deadline away": ("_GIVEN_OR_CANCELLED", ("if not CANCELS:", "if True:")),
    "answer of until": ("_JUDGED", ("ends = X", "ends = not X")),
    "until sees a copy": ("_JUDGED", ("known.copy()", "known")),
    "what until has seen counts": ("TAKE_OVER", ("state[COLUMNS:BEHIND] = after[COLUMNS:BEHIND]", "pass")),
    "until and an open group": ("TAKE_OVER", ("all_states[key] = state", "pass")),
    "answers of until": ("ENDED", ("+= answered - ended", "+= answered")),
    "items that until sees": (group_code, "_GROWS", ("(I is not None)", "0")),
    "different items that until sees": (group_code, "_GROWS_ONCE", ("I not in bags", "True or I not in bags")),
    "watermark": (placing, "_MOVES", ("event.watermark = time", "pass")),
    "window": (placing, "_SPAN", ("begin <= time < end", "end")),
    "window of another time": (placing, "_SPAN", ("time != last", "last is None")),
    "name of a window": (placing, "_NAMED", ("prefix + key", "key")),
    "no room for a window": (placing, "_NAMED", ("refuses(groups)", "False")),
    "a group that is near": (placing, "_NEAR", ("near.note(bare, key, state)", "near.note(bare, bare, state)")),
    "time of a record that is left out": (placing, "PASSED", ("groups.pass_over(record, now)", "pass")),
    "session": (sessions, "_FIND", ("+ gap", "+ 2 * gap")),
    "session before its first record": (sessions, "_FIND", ("- gap <=", "- 2 * gap <=")),
    "late session": (sessions, "_FIND", ("time + lasts <= event.watermark", "False")),
    "end of a session": (sessions, "_JOINS", ("state[END] = time", "pass")),
    "begin of a session": (sessions, "_JOINS", ("state[BEGIN] = time", "pass")),
    "age of a session": (sessions, "_JOINS", ("state[SEEN] = now", "pass")),
    "close of a session": (sessions, "_BOUNDED", ("0 <= time < bound", "bound")),
}


def test_each_stage_that_is_made_wrong_is_in_its_module() -> None:
    missing = []
    for stage, (*place, name, (code, _)) in MUTANTS.items():
        modules = place or modules_of(name)
        if not modules or code not in getattr(modules[0], name, ""):
            missing.append(stage)
    assert missing == []


@pytest.mark.parametrize("stage", MUTANTS)
def test_a_stage_that_is_wrong_is_seen(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    *place, name, (code, other) = MUTANTS[stage]
    for module in place or modules_of(name):
        assert code in getattr(module, name)
        monkeypatch.setattr(module, name, getattr(module, name).replace(code, other))
    assert differs()


@pytest.mark.parametrize("method", ["turn", "pop"])
def test_a_group_that_is_near_and_is_of_another_window_or_has_ended_is_seen(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near.NearGroups, method, lambda *_: None)
    assert differs()


def test_a_type_that_the_decoder_does_not_prove_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_any_type(fields: list[Field]) -> FieldDecoder:
        return wanted([field._replace(kind="any", required=False) for field in fields])

    monkeypatch.setattr(clauses, "wanted", of_any_type)
    assert differs()


@pytest.mark.parametrize("proof", ["number", "text"])
def test_a_type_that_is_not_proven_is_seen(proof: typed.Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(typed._CHECKS, proof, "(T := X)")
    assert differs()


@pytest.mark.parametrize(
    ("part", "other"), [("offset", "record.partition()"), ("key", "record.topic()"), ("headers", "{}")]
)
def test_a_part_of_the_message_that_is_wrong_is_seen(part: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(clauses._MESSAGE, part, other)
    assert differs()


def test_a_text_beside_the_value_that_is_too_long_is_left_to_the_careful_way() -> None:
    groups = Groups(Rule(an_agent(Aggregation(), where='message.key + "x" != ""'), codec("json")))
    fill(groups, [record(0, b"k" * MAX_LENGTH, b"{}"), record(1, b"k", b"{}")], 0.0)
    assert [(event.record.offset(), event.reason) for event in groups.events] == [(0, "expression-failed")]
    assert loop_of(groups.rule, True, exactly) is not None


@pytest.mark.parametrize("key", [b"k", "é".encode(), b"\xff", None])
def test_a_key_that_is_no_ascii_text_stays_in_the_loop(key: bytes | None) -> None:
    groups = Groups(Rule(an_agent(Aggregation(), where='default(message.key, "none") != "é"'), codec("json")))
    aside: list[Any] = []
    loop = loop_of(groups.rule, True, lambda groups, record, now: aside.append(record))
    assert loop is not None
    loop.call(groups, [record(0, key, b"{}")], 0.0, None)
    assert (aside, groups.outcomes["where", "true"]) == ([], int(key != "é".encode()))


def test_a_key_of_the_loop_that_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "KEY_TEXT", clauses.KEY_TEXT.replace("key.decode()", "key.decode() + 'x'"))
    assert differs()


@pytest.mark.parametrize("text", ["group.a.t", 'default(group.a.t, "")'])
def test_a_long_text_of_an_earlier_record_of_the_group_is_left_to_the_careful_way(text: str) -> None:
    """Twice it has more characters than a text of an expression may have."""
    until, legs = f'has(group.s) && "" + {text} + {text} == ""', tuple(Reducer(leg, "first", leg) for leg in "as")
    rule = Aggregation(until=until, compute=legs, on_missing="ignore", correlation=Correlation(20.0, "skip"))
    both = Both(an_agent(rule), False)
    assert loop_of(both.rule, False, carefully) is not None
    for offset, value in enumerate([b'{"a": {"t": "%s"}}' % (b"x" * (MAX_LENGTH // 2 + 1)), b'{"s": 1}']):
        assert both.add([record(offset, b"k", value)], 0.0)
    assert [event.reason for event in both.quick.events] == ["expression-failed"]


def test_until_reads_a_field_again_that_a_cancelled_deadline_did_not_read() -> None:
    deadline = DataDeadline(after="b", unit="s", cancel="a == 1")
    rule = Rule(an_agent(Aggregation(until="group.count >= 2 && b > 5", deadline=deadline)), codec("json"))
    groups = Groups(rule)
    cancelled = [record(offset, b"k2", b'{"a": 1, "b": 1}') for offset in (1, 2)]
    accept(groups, [record(0, b"k1", b'{"a": 0, "b": 9}'), *cancelled], 0.0)
    assert loop_of(rule, False, carefully) is not None
    assert not groups.events


def test_an_exact_part_of_until_reads_no_group() -> None:
    """The loop has no list of the items, only their number."""
    compute = (Reducer("all", "collect", "a"),)
    for until in ("group.all.exists(each, each > 3)", "math.abs(group.count) == 3"):
        rule = Rule(an_agent(Aggregation(until=until, compute=compute)), codec("json"))
        assert loop_of(rule, False, carefully) is None


def test_changes_beside_an_until_expression_have_a_loop() -> None:
    compute = (Reducer("total", "sum", "a"),)
    rule = Rule(an_agent(Aggregation(until="group.total > 9", compute=compute, emit=Emit(on="change"))), codec("json"))
    groups = Groups(rule)
    accept(groups, [record(offset, b"k", b'{"a": %d}' % value) for offset, value in enumerate([3, 0, 4, 5])], 0.0)
    assert loop_of(rule, False, carefully) is not None
    assert [(event.reason, event.values) for event in groups.events if isinstance(event, Fire)] == [
        ("early", {"total": 3}),
        ("early", {"total": 7}),
        ("until", {"total": 12}),
    ]


def test_a_sum_beyond_the_range_of_a_double_is_infinite() -> None:
    rule = Rule(an_agent(Aggregation(compute=(Reducer("sum", "sum", "a"),))), codec("json"))
    by_loop, with_care = Groups(rule), Groups(rule)
    batch = [record(0, b"k", b'{"a": 1' + b"0" * 310 + b"}"), record(1, b"k", b'{"a": 0.5}')]
    accept(by_loop, batch, 0.0)
    for one in batch:
        carefully(with_care, one, 0.0)
    assert by_loop.states == with_care.states
    assert rule.values(by_loop.states[b"k"], []) == {"sum": inf}


@pytest.mark.parametrize("proof", ["", "else unproven()"])
def test_until_sees_no_total_that_a_result_cannot_hold(proof: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its proof the loop takes infinity for a value."""
    compute = (Reducer("total", "sum", "a"),)
    until = "group.total > 1.5e308"
    if proof:
        without = group_code._FINITE.replace(proof, "else T")
        monkeypatch.setattr(group_code, "_NUMBERS", {"sum": without})
    groups = Groups(Rule(an_agent(Aggregation(until=until, compute=compute)), codec("json")))
    accept(groups, [record(offset, b"k", b'{"a": 1e308}') for offset in range(3)], 0.0)
    assert (len(groups.events) == 0) == (not proof)


def test_a_record_that_ends_the_process_changes_nothing() -> None:
    """All that can fail is before the first change."""
    rule = Rule(an_agent(Aggregation(compute=(Reducer("ids", "distinct", "id"),))), codec("json"))
    groups = Groups(rule)
    accept(groups, [record(0, b"k", b'{"id": "x"}'), record(1, b"k", b'{"id": null}'), record(2, b"k", b"{")], 0.0)
    assert [event.reason for event in groups.events] == ["missing-field", "undecodable"]
    assert groups.states[b"k"][:3] == [1, 0, 0]


@pytest.mark.parametrize("more", [with_user_reducers, with_changes, with_sliding_windows])
def test_the_loop_gives_what_the_careful_way_gives_with(more: Callable[[Agent], Agent]) -> None:
    loops = [compare(seed, more=more) for seed in range(SEEDS)]
    assert sum(loops) > SEEDS * 0.5


@pytest.mark.parametrize(
    ("more", "stage", "code", "other"),
    [
        (with_user_reducers, "_FOLDED", "if SIZE > most_folded:", "if False:"),
        (with_user_reducers, "_APPLY", "unopened if state is None else state", "unopened"),
        (with_changes, "BEFORE", "computable(", "str("),
        (with_changes, "CHANGED", "if get(key) is state:", "if False:"),
    ],
)
def test_a_stage_is_seen_that_is_wrong_with(
    more: Callable[[Agent], Agent], stage: str, code: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code in pattern(stage)
    replace_pattern(monkeypatch, stage, pattern(stage).replace(code, other))
    assert differs(more)


SLIDING_MUTANTS = {
    "room for the key": ("_FIND", "len(entries) >= most_items", "False"),
    "order": ("_FIND", "time < entries[-1][0]", "False"),
    "a time that is too far ahead": ("_FIND", "time > furthest", "False"),
    "a late record": ("_FIND", "time + grace < watermark", "False"),
    "a time before 1970": ("_FIND", " or time < 0", ""),
    "watermark": ("_MOVES", "event.watermark = watermark = time", "pass"),
    "what the commit stores": ("_RESULT", "keep(entry)", "pass"),
    "trace": ("_SENDS", "traceparent(record) if", "'x' if"),
    "line": ("_RESULT", "entries.append(entry)", "entries[-1] = entry"),
    "a new line": ("_RESULT", "groups.new_line(key, entry)", "groups._line([entry])"),
    "how many": ("_RESULT", "many = len(entries) - at", "many = len(entries)"),
    "the first record": ("_RESULT", "first.append(entry)", "pass"),
    "the first record that leaves": ("_RESULT", "first.popleft()", "pass"),
    "begin": ("_RESULT", "line.newest = at", "pass"),
    "begin by number": ("_EXPECTS", "entries[at][0]\nif", "time\nif"),
    "when records are removed": ("_EXPECTS", "groups.expect(key, line)", "pass"),
    "how many records are kept": ("_EXPECTS", "> spare", "> spare + 2"),
    "answers of having": ("_DENIED", "+= denied", "+= 0"),
    "records that are removed": ("_CLOSES", "groups.close_passed(now)", "pass"),
    "the first moment": ("_BEFORE", "< begins", "<= begins"),
    "number": ("_TOO_MANY", "> most_records", "> most_records + 1"),
    "a result that is no plain event": ("_PLAINLY", "if PLAIN:", "if True:"),
    "the first offset": ("_SENDS", "opener[1]", "offset"),
    "the first time": ("_SENDS", "opened = opener[READ_AT]", "opened = now"),
    "the window": ("_SENDS", "Closing(BEGINS", "Closing(1 + BEGINS"),
    "the watermark of a result": ("_SENDS", "watermark, 1", "time, 1"),
    "sum": ("_SUM_ENTERS", "+= amount", "+= 1"),
    "sum of doubles": ("_SUM_ENTERS", "SUM.add(amount)", "pass"),
    "sum that is left": ("_SUM_LEAVES", "-= amount", "-= 1"),
    "sum of doubles that is left": ("_SUM_LEAVES", "SUM.remove(amount)", "pass"),
    "the best": ("_BEST_ENTERS", "BEST.append(entry)", "pass"),
    "what is worse": ("_BEST_ENTERS", "BEST.pop()", "break"),
    "the best that leaves": ("_BEST_LEAVES", "BEST.popleft()", "pass"),
    "total": ("_TOTAL", "not SUM.many", "True"),
    "a total that a result cannot have": ("_FINITE", "lowest <", "True or"),
    "a number of a late total": ("_UNUSUAL", "line.unusual = True", "pass"),
    "late totals": ("_HOLDS", "    LATE\n", ""),
}


@pytest.mark.parametrize("stage", SLIDING_MUTANTS)
def test_a_stage_of_sliding_windows_that_is_wrong_is_seen(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, code, other = SLIDING_MUTANTS[stage]
    assert code in getattr(sliding, name)
    monkeypatch.setattr(sliding, name, getattr(sliding, name).replace(code, other))
    assert differs(with_sliding_windows)


def test_a_partition_of_sliding_windows_without_room_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    line_of = SlidingGroups.line_of
    monkeypatch.setattr(SlidingGroups, "line_of", lambda self, many: line_of(self, -sys.maxsize))
    assert differs(with_sliding_windows)


@pytest.mark.parametrize("kind", sliding._WORSE)
def test_a_worse_value_of_a_sliding_window_that_stays_is_seen(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    other = "True" if sliding._WORSE[kind] == "False" else "False"
    monkeypatch.setitem(sliding._WORSE, kind, other)
    assert differs(with_sliding_windows)


def test_the_source_has_a_comment_for_each_stage() -> None:
    rule = Rule(
        an_agent(Aggregation(count=3, until=Until("s", "x"), compute=(Reducer("s", "collect"),))), codec("json")
    )
    made = loop_of(rule, False, carefully)
    assert made is not None
    comments = [line.strip() for line in made.source.splitlines() if line.strip().startswith("#")]
    assert comments == ["# values and key", "# items of bags", "# group", "# bags", "# end"]
