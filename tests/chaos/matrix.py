"""`python -m tests.chaos.matrix`: docs/proof/crash-matrix.md, every failpoint x fault x store, and the tests that meet
it."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.chaos import cells
from tests.chaos.cells import KINDS, SERVERS, STORES, Cell

PROJECT = Path(__file__).resolve().parents[2]
FILE = PROJECT / "docs" / "proof" / "crash-matrix.md"
COLUMNS = (*STORES, *SERVERS)
HIT = re.compile(r"""failpoints\.hit\(\s*"([a-z-]+)"\s*\)""")


class Family(NamedTuple):
    """Cells of one test. `sign` stands for it in the table."""

    sign: str
    test: str
    cells: Callable[[bool], list[Cell]]


def _transactional(whole: bool) -> list[Cell]:
    """But for the one that kills the broker: that is no failpoint."""
    return [cell for cell in cells.transactional(whole) if cell[:3] != cells.COORDINATOR]


CHAOS = "tests/chaos/"
FAMILIES = (
    Family("C", f"{CHAOS}test_cells.py: groups of a partition", cells.chosen),
    Family("N", f"{CHAOS}test_cells.py: the same under group.protocol consumer", cells.newer),
    Family("P", f"{CHAOS}test_cells.py: groups that are rows of the store", cells.paged),
    Family("Q", f"{CHAOS}test_cells.py: windows whose groups are rows of the store", cells.windowed),
    Family("B", f"{CHAOS}test_books.py: a handler of messages, in the transaction of the store", cells.books),
    Family("G", f"{CHAOS}test_books.py: a handler of groups, in the transaction of the store", cells.booked_groups),
    Family("L", f"{CHAOS}test_slow_handlers.py: handlers beside the loop", cells.slow),
    Family("D", f"{CHAOS}test_sendings.py: the dispatcher of timeouts and lanes", cells.dispatcher),
    Family("T", f"{CHAOS}test_transactional.py: results in Kafka transactions", _transactional),
    Family("S", f"{CHAOS}test_shared.py: scope shared on three workers", cells.shared),
    Family("V", "tests/integration/test_deploy.py: a worker, while a partition changes its version", cells.switches),
    Family("W", "tests/integration/test_deploy.py: the command `deploy`, after its commit", cells.commands),
)


class Single(NamedTuple):
    """A cell that is no family's."""

    sign: str
    test: str
    point: str
    kind: str
    store: str


SINGLES = (
    Single(
        "c", f"{CHAOS}test_chain.py: what is sent twice counts once further down", "acked-not-recorded", "kill", "redis"
    ),
    Single(
        "c",
        f"{CHAOS}test_chain.py: what is sent twice counts once further down",
        "acked-not-recorded",
        "kill",
        "sqlite",
    ),
    Single("p", f"{CHAOS}test_poison.py: three exceptions at one offset", "before-commit", "raise", "redis"),
    Single("d", f"{CHAOS}test_dedupe.py: a producer that writes twice", "before-commit", "kill", "sqlite"),
    Single("d", f"{CHAOS}test_dedupe.py: a producer that writes twice", "after-commit", "kill", "redis"),
    Single("y", f"{CHAOS}test_strategies.py: each strategy against repeats", "before-commit", "kill", "mongodb"),
    Single("y", f"{CHAOS}test_strategies.py: each strategy against repeats", "before-commit", "kill", "postgresql"),
    Single("y", f"{CHAOS}test_strategies.py: each strategy against repeats", "acked-not-recorded", "kill", "redis"),
    Single("k", f"{CHAOS}test_repartition.py: the half that re-keys", "acked-not-recorded", "kill", "sqlite"),
    Single("g", f"{CHAOS}test_changed_rule.py: groups of another rule end in slices", "before-commit", "kill", "redis"),
    Single("g", f"{CHAOS}test_changed_rule.py: groups of another rule end in slices", "after-commit", "kill", "redis"),
    Single(
        "r", "tests/integration/test_rebuild.py: a rebuild that is killed half-way", "replay-half-way", "kill", "redis"
    ),
    Single(
        "r",
        "tests/integration/test_rebuild.py: a rebuild that is killed half-way",
        "replay-half-way",
        "kill",
        "postgresql",
    ),
    *(
        Single("w", "tests/integration/test_rewind.py: a replay that is killed again and again", point, "kill", store)
        for point in ("correction-committed", "correction-sent")
        for store in (*STORES, *SERVERS)
    ),
    Single(
        "m", "tests/integration/test_mending_live.py: `dead retry` that is killed", "retry-sent", "kill", "postgresql"
    ),
    Single("f", "tests/integration/test_faust.py: a Faust app that is killed", "faust-inserted", "kill", "sqlite"),
    Single("f", "tests/integration/test_faust.py: a Faust app that is killed", "faust-received", "kill", "sqlite"),
    Single(
        "u",
        "tests/unit/engine/test_dead_letters.py: `dead retry` cut off, and given again",
        "retry-asked",
        "raise",
        "memory",
    ),
    Single(
        "u",
        "tests/unit/engine/test_dead_letters.py: `dead retry` cut off, and given again",
        "retry-sent",
        "raise",
        "memory",
    ),
    *(
        Single("o", "tests/integration/test_group_retry.py: a retry of groups that is killed", point, "kill", store)
        for point in ("group-asked", "group-kept")
        for store in (*STORES, *SERVERS)
    ),
    *(
        Single("q", "tests/integration/test_group_retry.py: the same with scope shared", point, "kill", store)
        for point in ("group-asked", "group-inserted", "group-kept", "shared-sealed", "shared-completed")
        for store in (*STORES, *SERVERS)
    ),
)

SHARED_STORE = (
    "one place in a program that a person runs: what it leaves is the same rows in any store, which the "
    "contract tests write"
)
COMMAND = (
    "a command that a person runs: stopped it holds nothing that others wait for; an error ends it as the kill does"
)
FAUST = (
    "inside a Faust app: Faust's own group overtakes one that is stopped; its errors end its process "
    "(tests/unit/test_faust_sink.py)"
)
OMITTED: dict[tuple[str, str], str] = {
    **cells.OMITTED,
    (
        "handler-running",
        "raise",
    ): "what raises in a call is its handler's failure, no fault of the engine (test_failing_handlers)",
    ("handler-running", "lost"): "no call to the store",
    (
        "handler-done",
        "raise",
    ): "what raises in a call is its handler's failure, no fault of the engine (test_failing_handlers)",
    ("handler-done", "lost"): "no call to the store",
    ("txn-produced", "lost"): "no call to the store",
    (
        "txn-committed",
        "lost",
    ): "no call to the store; a commit without a reply is tests/integration/test_kafka_transactions.py's",
    (
        "txn-produced",
        "raise",
    ): "an error ends the producer, as each doubt does (tests/unit/engine/test_transactional.py)",
    (
        "txn-committed",
        "raise",
    ): "an error ends the producer, as each doubt does (tests/unit/engine/test_transactional.py)",
    ("shared-sealed", "lost"): "nothing is asked of the store between a batch's seal and its first call",
    ("lane-numbered", "lost"): "the batch is here: nothing is asked of the store before its marks",
    (
        "lane-sent",
        "lost",
    ): "no call to the store; marks without a reply are tests/contracts/dispatcher/test_holders.py's",
    ("lane-marked", "lost"): "the reply is here; marks without one are tests/contracts/dispatcher/test_holders.py's",
    ("rules-written", "stop"): COMMAND,
    **{(f"correction-{when}", kind): COMMAND for when in ("committed", "sent") for kind in ("stop", "raise", "lost")},
    **{("retry-asked", kind): COMMAND for kind in ("kill", "stop", "lost")},
    **{("retry-sent", kind): COMMAND for kind in ("stop", "lost")},
    **{
        (f"group-{when}", kind): COMMAND for when in ("asked", "inserted", "kept") for kind in ("stop", "raise", "lost")
    },
    **{("replay-half-way", kind): COMMAND for kind in ("stop", "raise", "lost")},
    **{(point, kind): FAUST for point in ("faust-inserted", "faust-received") for kind in ("stop", "raise", "lost")},
}
"""Why there is no cell in any store, by (failpoint, fault)."""
PROGRAMS = (
    "rules-written",
    "correction-committed",
    "correction-sent",
    "retry-asked",
    "retry-sent",
    "group-asked",
    "group-inserted",
    "group-kept",
    "replay-half-way",
    "faust-inserted",
    "faust-received",
)
ELSEWHERE = dict.fromkeys(PROGRAMS, SHARED_STORE)
"""Why there is no cell in the other stores, by failpoint."""

STANDS_FOR = {
    "paused-in-commit, another owner claims, bytes arrive late": (
        "test_servers: a commit held in a proxy past a takeover"
    ),
    "stale-batch": "before-commit stop, and its twin `stale-batch` in test_twins",
    "ack of 7 before 6; delivery-error on n with n+1 delivered": "test_relay, on every order of reports",
    "zombie-relay; resend after output partitions grew": "acked-not-recorded stop; test_chain",
    "idle restarts, fencing duel": "test_poison",
    "migrate-step": "tests/contracts/test_migrate.py: a step that fails leaves nothing and is done the next time",
    "Redis AOF rewound, with a downstream agent": "test_chain: a store that went back",
    "the coordinator killed inside a transaction": "test_transactional, in `make chaos`",
    "store wiped, other store, entry missing, retention passed": "test_gaps",
}
"""Faults of the protocol that are no failpoint in the code."""


def in_the_code() -> set[str]:
    """Every failpoint that streams or connectors call."""
    files = [file for folder in ("streams", "connectors") for file in (PROJECT / folder).rglob("*.py")]
    return {name for file in files for name in HIT.findall(file.read_text())}


def signs(point: str, kind: str, store: str) -> list[str]:
    """The tests of a cell: CI runs **X** within a few days, X is in `make chaos` alone."""
    marks = [_sign(family, (point, kind, store)) for family in FAMILIES]
    singles = {f"**{single.sign}**" for single in SINGLES if single[2:] == (point, kind, store)}
    return [sign for sign in marks if sign] + sorted(singles)


def _sign(family: Family, place: tuple[str, str, str]) -> str:
    if place in {cell[:3] for cell in family.cells(False)}:
        return f"**{family.sign}**"
    return family.sign if place in {cell[:3] for cell in family.cells(True)} else ""


def points() -> list[str]:
    """Those of the cells in their order, then those of commands and programs."""
    known = [cell.point for family in FAMILIES for cell in family.cells(True)] + [single.point for single in SINGLES]
    return list(dict.fromkeys(known))


def reason(point: str, kind: str, store: str) -> str:
    """Why a cell is empty. Raises KeyError for one that has no reason."""
    return cells.NO_SHARED.get((point, kind, store)) or OMITTED.get((point, kind)) or ELSEWHERE[point]


def rows() -> Iterator[str]:
    """The table, and the reasons that it refers to."""
    reasons: dict[str, int] = {}
    for point in points():
        for kind in KINDS:
            tests = [" ".join(signs(point, kind, store)) for store in COLUMNS]
            places = zip(tests, COLUMNS, strict=True)
            tests = [
                test or f"[{reasons.setdefault(reason(point, kind, store), len(reasons) + 1)}]"
                for test, store in places
            ]
            memory = " ".join(signs(point, kind, "memory"))
            yield f"| {point} | {kind}{memory and f' (memory: {memory})'} | {' | '.join(tests)} |"
    yield ""
    yield from (f"{number}. {text}" for text, number in reasons.items())


def document() -> str:
    """The whole file."""
    tests = {family.sign: family.test for family in FAMILIES} | {single.sign: single.test for single in SINGLES}
    places = [(point, kind, store) for point in points() for kind in KINDS for store in COLUMNS]
    filled = [place for place in places if signs(*place)]
    runs = sum(len(set(family.cells(True))) for family in FAMILIES) + len(SINGLES)
    return "\n".join(
        [
            "# Crash matrix",
            "",
            "Generated by `python -m tests.chaos.matrix`. A failpoint is a place in the code where a test lets the "
            "process fail: killed,",
            "stopped until others have taken over, ended by an exception, or left without the store's reply. After "
            "each the verdict over",
            "all topics must be clean: nothing lost, nothing repeated, nothing out of order.",
            "",
            f"{len(points())} failpoints x {len(KINDS)} faults x {len(COLUMNS)} stores: {len(filled)} of "
            f"{len(places)} places have",
            f"at least one test, {runs} cells in all. Those of tests/chaos are in `make chaos`; CI runs **X** within "
            "three days;",
            "[n] is the reason why there is none. The memory store is in no cell of processes: it ends with its "
            "process.",
            "",
            *(f"- {sign}: {test}" for sign, test in tests.items()),
            "",
            f"| failpoint | fault | {' | '.join(COLUMNS)} |",
            f"|{'---|' * (len(COLUMNS) + 2)}",
            *rows(),
            "",
            "Other faults of the protocol (docs/protocol.md), and the tests that cover them:",
            "",
            *(f"- {name}: {test}" for name, test in STANDS_FOR.items()),
            "",
        ]
    )


if __name__ == "__main__":
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(document())
