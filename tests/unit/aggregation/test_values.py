"""Numbers and values at their edges, and what a record may be."""

import json
from typing import Any

import pytest

from sluicegate.streams.agent import Aggregation, Reducer
from sluicegate.streams.aggregation.events import Unhandled
from tests.unit.aggregation import formats
from tests.unit.aggregation.turning import Turned, an_agent, record

NUMBERS = tuple(Reducer(kind, kind, "n") for kind in ("sum", "min", "max", "mean"))
HUGE = int("9" * 400)


def fired(compute: tuple[Reducer, ...], *values: bytes, form: str = "json", **rule: Any) -> dict[str, Any]:
    turned = Turned(an_agent(Aggregation(count=len(values), compute=compute, **rule), form))
    for n, value in enumerate(values):
        turned.accept([record(n, b"a", value)], 1.0)
        turned.commit(1.0)
        turned.restore()
    assert turned.refused == []
    return turned.fires[b"a"][0][-1]  # type: ignore[no-any-return]


def overflowed(compute: tuple[Reducer, ...], *values: bytes) -> str:
    """The error of the result, which is a dead letter."""
    turned = Turned(an_agent(Aggregation(count=len(values), compute=compute)))
    turned.accept([record(n, b"a", value) for n, value in enumerate(values)], 1.0)
    [letter] = turned.groups.events
    assert isinstance(letter, Unhandled)
    assert (letter.reason, letter.stage, letter.fire.count) == ("overflow", "aggregate", len(values))
    return letter.error


def of(*numbers: Any) -> tuple[bytes, ...]:
    return tuple(json.dumps({"n": n}).encode() for n in numbers)


def test_a_sum_of_integers_is_an_integer_beyond_64_bits() -> None:
    assert fired(NUMBERS, *of(2**63, 2**63, 1))["sum"] == 2**64 + 1


@pytest.mark.parametrize("compute", [NUMBERS, (*NUMBERS, Reducer("first", "first", "n"))], ids=["inline", "adders"])
def test_integers_beyond_all_floats_do_not_end_the_loop(compute: tuple[Reducer, ...]) -> None:
    for numbers in ((HUGE, 0.5), (1e308, 1e308), (1e308, 1e308, -1e308), (1e308, 1e308, -HUGE)):
        assert "give sum and mean beyond the range of a double" in overflowed(compute, *of(*numbers))
    assert "give mean beyond the range of a double" in overflowed(compute, *of(-HUGE, -HUGE))


def test_a_sum_of_integers_has_no_range() -> None:
    assert fired((Reducer("sum", "sum", "n"),), *of(HUGE, 1))["sum"] == HUGE + 1


def test_distinct_takes_1_and_1_0_for_one_number_and_true_for_another_value() -> None:
    assert (
        fired((Reducer("kinds", "distinct", "n"),), *of(1, 1.0, True, "1", {"a": 1, "b": 2}, {"b": 2, "a": 1}, HUGE))[
            "kinds"
        ]
        == 5
    )


def test_what_each_reducer_gives_for_nothing() -> None:
    compute = (
        *NUMBERS,
        *(Reducer(kind, kind, "n") for kind in ("first", "last", "distinct", "collect")),  # type: ignore[arg-type]
    )
    nothing = {"first": None, "last": None, "distinct": 0, "collect": []}
    assert fired(compute, b"{}", b'{"n":null}', on_missing="ignore") == {
        **{"sum": 0, "min": None, "max": None, "mean": None},
        **nothing,
    }


@pytest.mark.parametrize("value", [b"[1]", b'"text"', b"7", b"null", b"true"])
def test_a_rule_that_wants_no_field_takes_any_json(value: bytes) -> None:
    assert fired((Reducer("n", "count"), Reducer("rows", "collect")), value) == {"n": 1, "rows": [json.loads(value)]}


class Odd:
    """A format whose values JSON does not know."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def decode(self, value: bytes) -> Any:
        return self.value

    def encode(self, document: Any) -> bytes:
        return b""


@pytest.mark.parametrize(
    "compute", [NUMBERS, (Reducer("last", "last", "n"),), (Reducer("rows", "collect"),)], ids=["stats", "last", "rows"]
)
@pytest.mark.parametrize(
    "value",
    [{"n": object()}, {"n": "\ud800"}, {"n": float("nan")}, {"n": {1: object()}}],
    ids=["object", "surrogate", "nan", "inside"],
)
def test_a_value_that_json_cannot_hold_is_refused_and_not_kept(
    monkeypatch: pytest.MonkeyPatch, value: Any, compute: tuple[Reducer, ...]
) -> None:
    monkeypatch.setattr(formats, "odd", Odd(value), raising=False)
    turned = Turned(an_agent(Aggregation(count=5, compute=compute), "tests.unit.aggregation.formats:odd"))
    turned.accept([record(0, b"a", b"anything")], 1.0)
    turned.commit(1.0)
    turned.restore()
    if compute[0].kind == "collect" and isinstance(value["n"], float):
        assert turned.refused == []
    else:
        assert [reason for _, reason in turned.refused] in (["undecodable"], ["wrong-type"], ["missing-field"])
        assert not turned.groups.states


def test_the_order_of_compute_in_the_file_changes_no_state() -> None:
    one, two = Reducer("x", "first", "n"), Reducer("a", "last", "n")
    turned = Turned(an_agent(Aggregation(count=3, compute=(one, two))))
    turned.accept([record(0, b"a", of(1)[0]), record(1, b"a", of(2)[0])], 1.0)
    turned.commit(1.0)
    other = Turned(an_agent(Aggregation(count=3, compute=(two, one))))
    other.log, other.first, other.last = turned.log, turned.first, turned.last
    other.restore()
    assert other.rule.fingerprint == turned.rule.fingerprint
    other.accept([record(2, b"a", of(3)[0])], 1.0)
    other.commit(1.0)
    assert other.fires[b"a"][0][-1] == {"a": 3, "x": 1}
