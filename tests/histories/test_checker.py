"""The checker is proven by hand-made histories with each anomaly, by random serializable histories, and by those with
one error."""

import ast
import re
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.histories.checker.appends import judged_appends
from tests.histories.checker.history import Append, Delivery, Element, History, Operation, Outcome, Read, Transaction
from tests.histories.checker.queues import judged_queue

OPERATION = re.compile(r"([ar])([x-z])(\d*)")


def txn(
    text: str, outcome: Outcome = "ok", process: str = "", begin: float = 0.0, end: float | None = None
) -> Transaction:
    """In the notation of Elle's tests: `ax1ry12` appends 1 to x, and reads [1, 2] of y."""
    operations: list[Operation] = [
        Append(key, int(digits)) if kind == "a" else Read(key, tuple(map(int, digits)))
        for kind, key, digits in OPERATION.findall(text)
    ]
    return Transaction(tuple(operations), outcome, process, begin, begin + 1 if end is None and begin else end or 0.0)


def kinds(*transactions: Transaction) -> set[str]:
    return {anomaly.kind for anomaly in judged_appends(transactions)}


BY_DATA: dict[str, tuple[list[str], set[str]]] = {
    # Histories of Elle's own tests are among these, and have the names that Elle gives them.
    "G0": (["ax1ay1", "ax2ay2", "rx12ry21"], {"G0"}),
    "G1b": (["ax1ax2", "rx1"], {"G1b", "G-single"}),
    "G1c": (["ax1ry1", "ax2ay1", "rx12ry1"], {"G1c"}),
    "G-single": (["ax1ay1", "ax2ry", "rx12"], {"G-single"}),
    "lost-update": (["ax1", "rx1ax2", "rx1ax3", "rx123"], {"G-single"}),
    "G2-item": (["ax1ry", "ay1rx"], {"G2-item"}),
    "long-fork": (["ax1", "ay1", "rx1ry", "rxry1"], {"G2-item"}),
    "incompatible-order": (["ax1", "ax2", "ax3", "rx12", "rx132"], {"incompatible-order"}),
    "duplicate-elements": (["ax1", "ax2", "rx121"], {"duplicate-elements"}),
    "duplicate-appends": (["ax1", "ax1"], {"duplicate-appends"}),
    "garbage-read": (["ax1", "rx17"], {"garbage-read"}),
    "internal": (["ax1", "rx1ax2rx1"], {"internal"}),
    "internal-append": (["ax3rx"], {"internal"}),
    "future-read": (["rx1ax1"], {"future-read"}),
    "nonadjacent": (["ax1", "rx1ry", "ay1", "ry1rx"], {"G2-item"}),
    "si-without-g-single": (["az2", "ay1rz", "rxryaz5", "ax2rz2"], {"G2-item"}),
    "unobserved": (["ax1", "rx", "ax2", "rx1ry", "ay1rx"], {"G2-item"}),
}


@pytest.mark.parametrize("name", BY_DATA)
def test_an_anomaly_in_the_data_is_found(name: str) -> None:
    texts, expected = BY_DATA[name]
    assert expected <= kinds(*map(txn, texts))


EXACT = ["G0", "G1c", "G-single", "G2-item", "lost-update", "long-fork"]


@pytest.mark.parametrize("name", EXACT)
def test_a_cycle_has_the_name_of_its_strongest_kind_and_no_other(name: str) -> None:
    texts, expected = BY_DATA[name]
    assert kinds(*map(txn, texts)) == expected


def test_a_read_of_what_failed_is_found() -> None:
    assert kinds(txn("ax1", "fail"), txn("rx1")) == {"G1a"}
    assert kinds(txn("ax1", "info"), txn("rx1")) == set()


def test_an_unknown_outcome_counts_only_where_it_was_seen() -> None:
    assert kinds(txn("ax1"), txn("ax2ry7", "info"), txn("rx1", begin=5.0), txn("ay1")) == set()
    assert "G-single-realtime" in kinds(txn("ax1", "info"), txn("rx1", begin=1.0), txn("rx", begin=3.0))


def test_a_stale_read_is_found_by_the_order_in_its_process() -> None:
    writes = [txn("ax1", process="p"), txn("ax2", process="p"), txn("rx1", process="p"), txn("rx12", process="q")]
    assert kinds(*writes) == {"G-single-process"}


def test_a_stale_read_is_found_by_real_time() -> None:
    stale = [txn("ax1", begin=1), txn("ax2", begin=3), txn("rx1", begin=5), txn("rx12", begin=7)]
    assert kinds(*stale) == {"G-single-realtime"}
    concurrent = [txn("ax1", begin=1), txn("ax2", begin=3, end=9), txn("rx1", begin=5), txn("rx12", begin=10)]
    assert kinds(*concurrent) == set()


def test_an_append_that_no_later_read_shows_is_lost() -> None:
    assert "lost-append" in kinds(txn("ax1", begin=1), txn("ax2", begin=3), txn("rx1", begin=5))
    assert kinds(txn("ax1", begin=1), txn("ax2", begin=3, end=6), txn("rx1", begin=5)) == set()


def test_the_example_of_the_paper_is_a_g_single() -> None:
    """An append to 255 was read, and then not."""
    read: list[list[Operation]] = [
        ([Append("255", 2), Append("255", 5), Append("256", 1), Append("256", 2)]),
        ([Append("255", 8)]),
        ([Append("256", 4), Read("255", (2, 5, 8)), Read("256", (1, 2, 4))]),
        ([Read("255", (2, 5)), Append("256", 3)]),
    ]
    assert kinds(*(Transaction(tuple(one)) for one in read)) == {"G-single"}


# -- random histories --------------------------------------------------------------------------------------------------


def serial(random: Random, count: int, concurrent: bool) -> list[Transaction]:
    """A store that runs one transaction after another, and takes new lists now and then; the last one reads all. With
    `concurrent` clients the times of transactions overlap, and some outcomes are unknown."""
    lists: dict[str, tuple[int, ...]] = {}
    history = []
    for number in range(1, count + 1):
        outcome: Outcome = random.choice(["ok", "ok", "ok", "info", "fail"]) if concurrent else "ok"
        operations: list[Operation] = []
        state: dict[str, tuple[int, ...]] = {}
        for place in range(random.randint(1, 4)):
            key = f"{random.choice('xyz')}{number // 100}"
            state.setdefault(key, lists.get(key, ()))
            if random.random() < 0.5:
                state[key] = (*state[key], 10 * number + place)
                operations.append(Append(key, 10 * number + place))
            else:
                operations.append(Read(key, state[key]))
        if outcome == "ok" or (outcome == "info" and random.random() < 0.5):
            lists |= state
        early, late = (random.random() * 5, random.random() * 5) if concurrent else (0.2, 0.2)
        history.append(Transaction(tuple(operations), outcome, "", 10 + number - early, 10 + number + late))
    everything = tuple(Read(key, elements) for key, elements in lists.items())
    return [*history, Transaction(everything, "ok", "", 100 + count, 101 + count)]


@settings(max_examples=150, deadline=None)
@given(some.integers(0, 10**9), some.integers(1, 40))
def test_a_serializable_history_passes(seed: int, count: int) -> None:
    assert judged_appends(serial(Random(seed), count, concurrent=True)) == []


@settings(max_examples=250, deadline=None)
@given(some.integers(0, 10**9), some.integers(3, 40), some.sampled_from(["cut", "swap", "repeat", "lose", "repeal"]))
def test_one_error_in_a_history_is_found(seed: int, count: int, error: str) -> None:
    random = Random(seed)
    history = serial(random, count, concurrent=False)
    if changed := corrupted(random, history, error):
        assert judged_appends(changed), (error, *map(str, changed))


def corrupted(random: Random, history: list[Transaction], error: str) -> list[Transaction] | None:
    """The history with one read that is wrong, one append that all reads lack, or one that is said to have failed."""
    if error in ("lose", "repeal"):
        shown = {append for read in history[-1].reads() for append in (Append(read.key, one) for one in read.elements)}
        victim = random.choice(sorted(shown)) if shown else None
        return victim and [_without(one, victim, error) for one in history]
    places = [
        (number, place)
        for number, one in enumerate(history[:-1])
        for place, read in enumerate(one.operations)
        if isinstance(read, Read) and len(read.elements) > (error == "swap")
    ]
    if not places:
        return None
    number, place = random.choice(places)
    read = history[number].operations[place]
    assert isinstance(read, Read)
    elements = read.elements
    changed = {"cut": elements[:-1], "swap": (*elements[:-2], *elements[:-3:-1]), "repeat": (*elements, elements[0])}
    operations = (
        *history[number].operations[:place],
        Read(read.key, changed[error]),
        *history[number].operations[place + 1 :],
    )
    one = history[number]
    return [
        *history[:number],
        Transaction(operations, one.outcome, one.process, one.begin, one.end),
        *history[number + 1 :],
    ]


def _without(one: Transaction, victim: Append, error: str) -> Transaction:
    if error == "repeal":
        return Transaction(one.operations, "fail", "", one.begin, one.end) if victim in one.operations else one
    operations = tuple(
        Read(
            operation.key,
            tuple(element for element in operation.elements if operation.key != victim.key or element != victim[1]),
        )
        if isinstance(operation, Read)
        else operation
        for operation in one.operations
    )
    return Transaction(operations, one.outcome, one.process, one.begin, one.end)


# -- queues ------------------------------------------------------------------------------------------------------------

PUT = [Element("a1", "a"), Element("b1", "b"), Element("a2", "a", "info"), Element("a3", "a", "fail")]
CAME = [Delivery("a1", "a", "0", "s/1"), Delivery("b1", "b", "1", "t/1"), Delivery("a1", "a", "0", "s/1")]


def queue_kinds(elements: list[Element], deliveries: list[Delivery], ordered: bool = True) -> set[str]:
    return {anomaly.kind for anomaly in judged_queue(elements, deliveries, ordered)}


def test_a_copy_under_the_same_identity_and_an_unknown_element_are_right() -> None:
    assert queue_kinds(PUT, CAME) == set()
    assert queue_kinds(PUT, [*CAME, Delivery("a2", "a", "0", "s/2")]) == set()


def test_each_anomaly_of_a_queue_is_found() -> None:
    assert queue_kinds(PUT, CAME[:1]) == {"lost"}
    assert queue_kinds(PUT, [*CAME, Delivery("a1", "a", "0", "s/9")]) == {"repeated"}
    assert queue_kinds(PUT, [*CAME, Delivery("c1", "c", "0", "s/9")]) == {"garbage-delivery"}
    assert queue_kinds(PUT, [*CAME, Delivery("a3", "a", "0", "s/9")]) == {"aborted-delivery"}
    assert queue_kinds(PUT, [*CAME, Delivery("a2", "a", "0", "s/1")]) == {"reused-identity"}
    late = [Delivery("a2", "a", "0", "s/2"), *CAME]
    assert (queue_kinds(PUT, late), queue_kinds(PUT, late, ordered=False)) == ({"order"}, set())


def test_a_delivery_before_its_time_is_found() -> None:
    put = [Element("a1", "a", due=100.0)]
    assert queue_kinds(put, [Delivery("a1", "a", "0", "s/1", at=99.0)]) == {"early"}
    assert queue_kinds(put, [Delivery("a1", "a", "0", "s/1", at=100.0)]) == set()


@settings(max_examples=100, deadline=None)
@given(some.integers(0, 10**9), some.integers(2, 30), some.sampled_from(["", "lose", "repeat", "swap"]))
def test_one_error_in_a_queue_is_found(seed: int, count: int, error: str) -> None:
    random = Random(seed)
    elements = [Element(str(number), random.choice("ab")) for number in range(count)]
    came = [Delivery(one.name, one.key, one.key, f"s/{number}") for number, one in enumerate(elements)]
    copies = [*came, *came[count // 2 :]]
    place = random.randrange(count)
    match error:
        case "lose":
            copies = [delivery for delivery in copies if delivery.name != str(place)]
        case "repeat":
            copies.append(copies[place]._replace(identity="s/again"))
        case "swap":
            later = [one for one in came[place + 1 :] if one.key == came[place].key]
            copies = [later[0], *copies] if later else [*copies, copies[0]._replace(name="?", identity="?")]
    assert bool(judged_queue(elements, copies)) is bool(error)


# -- the file, and what the checker knows ------------------------------------------------------------------------------


def test_a_file_holds_the_whole_history(tmp_path: Path) -> None:
    history = History(serial(Random(1), 20, concurrent=True), PUT, CAME, {"store": "redis"})
    history.write(tmp_path / "history.jsonl")
    assert History.read(tmp_path / "history.jsonl") == history


def test_the_checker_imports_the_standard_library_only() -> None:
    for file in Path(__file__).with_name("checker").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                ours = name.startswith("tests.histories.checker")
                assert ours or name.partition(".")[0] in sys.stdlib_module_names, (file, name)


def test_thousands_of_transactions_that_overlap_are_judged_at_once() -> None:
    """As where all stood still for a while."""
    appends = [Transaction((Append(f"k{number}", number),), "ok", "", 1.0, 2.0) for number in range(2000)]
    reads = [Transaction((Read(f"k{number}", (number,)),), "ok", "", 3.0, 4.0) for number in range(2000)]
    assert judged_appends([*appends, *reads]) == []
    stale = Transaction((Read("k7", ()),), "ok", "", 5.0, 6.0)
    [anomaly] = judged_appends([*appends, *reads, stale])
    assert anomaly.kind == "G-single-realtime"
    assert all(kind in anomaly.why for kind in ("-rw->", "-realtime->"))


def test_thousands_of_transactions_are_judged_at_once() -> None:
    history = serial(Random(2), 5_000, concurrent=False)
    assert judged_appends(history) == []
    stale = Transaction((Read("x0", ()),), "ok", "", history[-1].end + 1, history[-1].end + 2)
    assert "G-single-realtime" in {anomaly.kind for anomaly in judged_appends([*history, stale])}
