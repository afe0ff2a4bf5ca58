"""1,000 random logs of change events, cut and crashed anywhere: the groups are what a database would answer."""

from random import Random

import pytest

from tests.unit.tables.database import Database, answers, in_order
from tests.unit.tables.scene import Scene, an_agent, compiled

RULES = compiled(an_agent())


def played(seed: int) -> tuple[Database, Scene]:
    database, scene = Database(seed), Scene(an_agent(), RULES)
    for _ in range(3):
        database.play(15)
    scene.send(database.events)
    scene.play(Random(seed))
    return database, scene


@pytest.mark.parametrize("hundred", range(10))
def test_the_groups_are_what_a_database_would_answer(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        database, scene = played(seed)
        wanted = answers(database.rows.values())
        assert {key: in_order(values) for key, values in scene.groups().items()} == wanted, seed
        assert {key: in_order(values) for key, values in scene.newest().items()} == wanted, seed
        assert {*scene.refused} <= {"missing-field", "wrong-type"}, seed


def test_an_ended_group_says_so() -> None:
    ended = 0
    for seed in range(100):
        database, scene = played(seed)
        for key, fires in scene.told.items():
            assert [fire.final for fire in fires] == [fire.count == 0 for fire in fires]
            assert all((fire.reason == "empty") == (fire.count == 0) for fire in fires)
            assert all(fire.count == fire.values["orders"] for fire in fires)
            ended += fires[-1].final is True
            assert (key in answers(database.rows.values())) == (fires[-1].final is False)
    assert ended > 50


def test_what_a_table_holds_is_what_the_database_has() -> None:
    """A deleted row is not kept, nor is a row that no group has."""
    for seed in range(100):
        database, scene = played(seed)
        rows = {key.decode() for half in scene.tables for key in half.groups.states}
        grouped = {k for k, row in database.rows.items() if row["customer"] and row["status"] != "cancelled"}
        assert rows == grouped
        assert all(half.groups.bytes == sum(s[6] for s in half.groups.states.values()) for half in scene.tables)
