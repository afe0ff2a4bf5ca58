"""A file's own tests: what fails them, in which words, and that a crash anywhere changes nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate.streams import failpoints
from sluicegate.streams.testing.matching import fits
from tests.mutation.twins import without
from tests.unit.engine import scene
from tests.unit.testing.files import FIRST, FULL, HEAD, crashed, played

FEED = "- send: {topic: flights, key: UA, value: {delay: 2}, times: 3}\n"


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm({})
    scene.deadly.clear()


def test_what_comes_as_expected_passes(tmp_path: Path) -> None:
    assert played(tmp_path, FULL) is None


UNFIT = "the next one does not fit: "
AT_THE_END = "expected no further output until the end of the test on "


@pytest.mark.parametrize(
    ("line", "steps", "text"),
    [
        (
            1,
            FEED + "- expect: {topic: delays, key: UA, value: {count: 2, total: 6}}",
            f'expected an output on delays with key UA and value {{"count":2,"total":6}}; {UNFIT}its count is 3, not '
            "2 (key UA, reason count",
        ),
        (
            1,
            FEED + "- expect: {topic: delays, value: {sum: 6}}",
            f"{UNFIT}it has no sum (key UA, reason count, value {{",
        ),
        (1, FEED + "- expect: {topic: delays, reason: timeout}", f"{UNFIT}its reason is count, not timeout"),
        (
            1,
            FEED + "- expect: {topic: delays, headers: {sluicegate-count: 4}}",
            f'{UNFIT}its header sluicegate-count is "3", not "4"',
        ),
        (1, FEED + "- expect: {topic: delays, headers: {other: 4}}", f"{UNFIT}it has no header other"),
        (
            1,
            FEED + "- expect: {topic: delays, key: AA}",
            "none came with this key, 1 with others: key UA, reason count, value {",
        ),
        (1, FEED + "- expect: {topic: delays, value: {window: {start: 1}}}", f"{UNFIT}it has no window (key UA"),
        (2, FEED + "- expect: {topic: delays}\n- expect: {topic: delays}", "expected an output on delays; none came"),
        (
            1,
            FEED + "- expect_nothing: delays",
            "expected no further output on delays; 1 came: key UA, reason count, value {",
        ),
        (1, FEED.replace("3}", "6}") + "- expect: {topic: delays}", f"{AT_THE_END}delays; 1 came: key UA"),
        (-1, FEED.replace("delay:", "late:"), f"{AT_THE_END}flights.dead; 3 came: key UA, reason missing-field"),
        (
            1,
            FEED.replace("delay:", "late:") + "- expect: {topic: flights.dead, reason: no-key}",
            "its reason is missing-field, not no-key",
        ),
    ],
)
def test_a_failure_says_where_what_was_expected_and_what_came(tmp_path: Path, line: int, steps: str, text: str) -> None:
    failure = played(tmp_path, steps)
    assert failure is not None
    assert text in failure.text
    assert failure.line == FIRST + line


def test_a_nested_mapping_names_only_the_fields_that_are_compared(tmp_path: Path) -> None:
    head = HEAD.replace("mean: {mean: delay}", "last: {last: at}, all: collect", 1)
    feed = FEED.replace("{delay: 2}", "{delay: 2, at: {gate: 7, hall: a}, legs: [{a: 1, b: 2}]}")
    nested = "{last: {hall: a}, all: [{legs: [{b: 2}]}, {at: {gate: 7}}, {}]}"
    assert played(tmp_path, feed + f"- expect: {{topic: delays, value: {nested}}}", head) is None
    failure = played(tmp_path, feed + f"- expect: {{topic: delays, value: {nested.replace('7', '8')}}}", head)
    assert failure is not None
    assert "does not fit: its all[1].at.gate is 7, not 8 (" in failure.text


def test_outputs_of_other_topics_may_be_left(tmp_path: Path) -> None:
    assert played(tmp_path, FEED) is None


def test_the_outputs_of_one_key_come_in_order_those_of_several_in_any(tmp_path: Path) -> None:
    two = FEED + FEED.replace("2", "4") + FEED.replace("UA", "AA")
    of_aa = "- expect: {topic: delays, value: {key: AA}}\n"
    first, second = (
        "- expect: {topic: delays, value: {total: 6, key: UA}}\n",
        "- expect: {topic: delays, value: {total: 12}}\n",
    )
    assert played(tmp_path, two + of_aa + first + second) is None
    assert played(tmp_path, two + first + second + of_aa) is None
    failure = played(tmp_path, two + second + first + of_aa)
    assert failure is not None
    assert "the first of the 2 that may be next does not fit: its total is 6, not 12" in failure.text


def test_dead_letters_and_null_values_and_bytes_can_be_expected(tmp_path: Path) -> None:
    steps = (
        "- send: {topic: flights, key: UA, value_base64: ew==}\n- expect: {topic: flights.dead, reason: undecodable}\n"
        "- send: {topic: flights, key: UA, value: null, headers: {a: b}}\n"
        "- expect: {topic: flights.dead, reason: null-value, value: null, headers: {a: b}}\n"
        "- send: {topic: flights, value: {delay: 1}}\n- expect: {topic: flights.dead, reason: no-key, value: {delay: "
        "1}}\n"
    )
    assert played(tmp_path, steps) is None


def test_a_partition_that_stops_fails_the_test(tmp_path: Path) -> None:
    head = HEAD.replace("aggregate: {count: 3", "aggregate: {max_groups: 1, on_full: stop, count: 3", 1)
    one = "- send: {topic: flights, key: UA, value: {delay: 2}, partition: 0}\n"
    assert played(tmp_path, one, head) is None
    failure = played(tmp_path, one + one.replace("UA", "AA"), head)
    assert failure is not None
    assert failure.text.startswith(
        "at the end of the test a partition stands still: flights/0 stopped: buffer-full: max_groups 1"
    )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no 7"), "flights.dead; 3 came: key UA, reason reducer"),
        (SystemExit(0), "the app raised SystemExit: 0"),
    ],
)
def test_what_the_app_raises_or_ends_with_fails_the_test(tmp_path: Path, error: BaseException, text: str) -> None:
    def raises(message: Any) -> bool:
        raise error

    scene.deadly["now"] = raises
    head = HEAD.replace(
        "compute: {total: {sum: delay}",
        "compute: {alive: {reduce: 'tests.unit.engine.scene:dies'}, total: {sum: delay}",
    )
    failure = played(tmp_path, FEED, head)
    assert failure is not None
    assert text in failure.text


@pytest.mark.parametrize(
    ("wanted", "value", "equal"),
    [
        (100, 100.0, True),
        (0.3, 0.1 + 0.2, True),
        (1, True, False),
        (1, 1.001, False),
        ("1", 1, False),
        (None, 0, False),
        ([1, 2.0], [1, 2], True),
        ([1], [1, 2], False),
        ({"a": 1}, {"a": 1.0}, True),
        (0, 0.0, True),
        (10**20, 10**20 + 1, False),
    ],
)
def test_values_are_equal_as_in_json(wanted: Any, value: Any, equal: bool) -> None:
    assert fits(wanted, value) is equal
    assert fits(value, wanted) is equal


# -- with crashes
# --------------------------------------------------------------------------------------------------------


def test_a_failure_or_a_death_anywhere_changes_nothing(tmp_path: Path) -> None:
    verdict = crashed(tmp_path, FULL)
    assert (verdict.failure, verdict.place) == (None, None)
    assert verdict.deaths > 80
    assert verdict.lost > 50


def test_a_test_that_fails_anyhow_is_not_played_with_crashes(tmp_path: Path) -> None:
    verdict = crashed(tmp_path, FEED + "- expect_nothing: delays")
    assert verdict.failure is not None
    assert (verdict.deaths, verdict.lost, verdict.place) == (0, 0, None)


@pytest.mark.parametrize(
    ("protection", "place"),
    [
        ("output-commit", "no answer from the store at commit-asked"),
        ("seek", "no answer from the store at c"),
        ("receive", "a death at "),
    ],
)
def test_without_a_protection_the_same_test_fails_and_says_at_which_place(
    tmp_path: Path, protection: str, place: str
) -> None:
    with without(protection):
        verdict = crashed(tmp_path, FULL)
    assert verdict.failure is not None
    assert verdict.place is not None
    assert verdict.place.startswith(place)


def test_without_a_death_leaving_its_process_at_once_a_death_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of the deaths themselves: a store that forgets what it was given since the claim."""
    from sluicegate.connectors.memory.state import MemoryStore

    claim = MemoryStore.claim

    def forgetful(self: MemoryStore, partition: Any, token: str, member: str) -> Any:
        self._rows.pop(partition, None)
        return claim(self, partition, token, member)

    monkeypatch.setattr(MemoryStore, "claim", forgetful)
    assert played(tmp_path, FULL) is None
    verdict = crashed(tmp_path, FULL)
    assert verdict.failure is not None
    assert verdict.place is not None
    assert verdict.place.startswith("a death at ")
