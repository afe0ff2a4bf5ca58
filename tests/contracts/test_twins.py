"""Each protection has a twin: the same scenario, on a store from which a named protection was taken, must fail by its
own verdict."""

from pathlib import Path
from typing import Any

import pytest

from sluicegate.connectors.memory import state as memory_state
from sluicegate.connectors.mongodb import chunks
from sluicegate.connectors.mongodb import state as mongodb_state
from sluicegate.connectors.redis import scripts
from sluicegate.connectors.sql import statements
from sluicegate.streams.contracts.values import Partition
from tests.contracts import scenarios
from tests.contracts.given import opened
from tests.contracts.sql import no_transactions
from tests.contracts.test_all_or_nothing import plant, sqlite_trigger
from tests.mutation.protections import PROTECTIONS
from tests.mutation.twin.edits import Edit
from tests.mutation.twins import take_out

Patch = pytest.MonkeyPatch
SQL = {"sqlite": "sqlite", "postgresql": "postgresql", "mariadb": "mysql"}
"""By backend the module of its product."""


def without(patch: Patch, place: object, name: str, old: str, new: str = "") -> None:
    """Take `old` out of a text of the product, which must be there."""
    text = getattr(place, name)
    assert text.count(old) == 1, f"{name} has no such protection any more"
    patch.setattr(place, name, text.replace(old, new))


def overwriting(file: str) -> list[Edit]:
    """The edits of this file after which new rows replace those that are there."""
    return [edit for edit in PROTECTIONS["fence"] if edit.file == file]


def replaced(collection: Any, documents: Any, session: Any) -> None:
    for document in documents:
        collection.replace_one({"_id": document["_id"]}, document, upsert=True, session=session)


def no_token(patch: Patch, backend: str) -> None:
    if backend == "memory":
        patch.setattr(memory_state, "_holds", lambda owned, claim: owned.version == claim.version)
    elif backend in SQL:
        without(patch, statements, "FENCE", "and token = %s", "and %s <> '~'")
    elif backend == "mongodb":
        patch.setattr(
            mongodb_state,
            "_of_claim",
            lambda claim: {"_id": mongodb_state._key(claim.partition), "version": claim.version},
        )
    else:
        without(patch, scripts, "COMMIT", "held[1] ~= ARGV[1] or ")


def no_version(patch: Patch, backend: str) -> None:
    if backend == "memory":
        patch.setattr(memory_state, "_holds", lambda owned, claim: owned.token == claim.token)
    elif backend in SQL:
        without(patch, statements, "FENCE", "and version = %s", "and %s >= 0")
        # What else would stop the second commit by chance, the entry's number, is out of the way too.
        take_out(patch, overwriting(f"connectors/sql/{SQL[backend]}.py"))
    elif backend == "mongodb":
        patch.setattr(
            mongodb_state, "_of_claim", lambda claim: {"_id": mongodb_state._key(claim.partition), "token": claim.token}
        )
        patch.setattr(mongodb_state, "_insert", replaced)
    else:
        without(patch, scripts, "COMMIT", " or held[2] ~= ARGV[2]")
        without(
            patch, scripts, "COMMIT", "if redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[3]) then return {'damaged'} end"
        )


def up_to_the_highest(patch: Patch, backend: str) -> None:
    if backend == "memory":
        patch.setattr(
            memory_state,
            "_settle",
            lambda row, changes: [row.unsent.pop(n, None) for n in range(max(changes.dispatched, default=0) + 1)],
        )
    elif backend in SQL:
        highest = "max" if backend == "sqlite" else "greatest"
        without(patch, statements, "RUN", "number between %s and %s", f"number <= {highest}(%s, %s)")
    elif backend == "mongodb":
        patch.setattr(chunks, "_leaving", lambda changes: list(range(max(changes.dispatched, default=0) + 1)))
    else:
        without(
            patch,
            scripts,
            "COMMIT",
            "redis.call('ZREMRANGEBYSCORE', KEYS[key], first, last)",
            "redis.call('ZREMRANGEBYSCORE', KEYS[key], 0, last)",
        )


CASES = {
    "token": (no_token, scenarios.an_older_claim_is_fenced),
    "version": (no_version, scenarios.one_claim_commits_once),
    "exact-reports": (up_to_the_highest, scenarios.only_reported_rows_go),
}


@pytest.mark.parametrize("case", CASES)
def test_without_the_protection_the_scenario_fails(
    backend: str, store_url: str, partition: Partition, case: str, monkeypatch: Patch
) -> None:
    remove, scenario = CASES[case]
    remove(monkeypatch, backend)
    with pytest.raises(AssertionError):
        scenario(opened(store_url), partition)


def test_without_its_checks_the_redis_script_leaves_half_a_commit(
    redis_url: str, partition: Partition, monkeypatch: Patch
) -> None:
    without(monkeypatch, scripts, "COMMIT", "if found ~= 'none' and found ~= kind then return {'damaged'} end")
    spoil, repair = plant(redis_url, partition, "outbox")
    with pytest.raises(AssertionError):
        scenarios.a_failing_commit_changes_nothing(opened(redis_url), partition, spoil, repair)


def test_without_its_transaction_sqlite_leaves_half_a_commit(
    tmp_path: Path, partition: Partition, monkeypatch: Patch
) -> None:
    no_transactions(monkeypatch.setattr)
    store = opened(f"sqlite:///{tmp_path}/state.db")
    with pytest.raises(AssertionError):
        scenarios.a_failing_commit_changes_nothing(store, partition, *sqlite_trigger(tmp_path / "state.db"))


def test_without_its_transaction_a_sqlite_reader_sees_half_a_commit(
    tmp_path: Path, partition: Partition, monkeypatch: Patch
) -> None:
    scenarios.a_reader_overtaken_by_a_commit_sees_one_picture(f"sqlite:///{tmp_path}/state.db", partition, monkeypatch)
    no_transactions(monkeypatch.setattr)
    with pytest.raises(AssertionError):
        scenarios.a_reader_overtaken_by_a_commit_sees_one_picture(
            f"sqlite:///{tmp_path}/state.db", partition, monkeypatch
        )
