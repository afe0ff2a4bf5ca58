"""The step `deploy` of a file's tests, and `TestDriver.deploy`."""

import json
from itertools import permutations
from pathlib import Path

import pytest

from sluicegate.streams.agent import App
from sluicegate.streams.config import load
from sluicegate.streams.config.loading import judge
from sluicegate.streams.config.text.document import parse
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.ownership.claiming.takeover import Takeover
from sluicegate.streams.testing.driver import TestDriver
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play, play_with_crashes
from tests.pairs.judge import file_of

OLD = """\
app: shop
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
dead_letters: shop.dead
agents:
  baskets:
    from: orders
    aggregate: {count: 3, timeout: {after: 30s, since: first}, compute: {total: {sum: amount}}}
    to: {topic: baskets}
"""
NEW = OLD.replace("count: 3", "count: 2").replace("total: {sum", "largest: {max").replace("baskets}", "larger}")
TESTS = """\
tests:
  a group of the earlier rule finishes:
    - send: {topic: orders, key: ann, value: {amount: 1}, times: 2}
    - deploy: {file: new.yaml, open: finish}
    - send: {topic: orders, key: ann, value: {amount: 5}}
    - send: {topic: orders, key: bob, value: {amount: 7}}
    - send: {topic: orders, key: bob, value: {amount: 4}}
    - expect: {topic: baskets, key: ann, value: {count: 3, total: 7}}
    - expect: {topic: larger, key: bob, value: {count: 2, largest: 7}}
    - expect_nothing: baskets
  a group is flushed:
    - send: {topic: orders, key: ann, value: {amount: 1}}
    - deploy: {file: new.yaml, open: flush}
    - expect: {topic: baskets, key: ann, value: {count: 1, total: 1}, reason: manual}
    - advance: 60s
  the records of open groups are read again:
    - send: {topic: orders, key: cid, value: {amount: 9}, times: 3}
    - send: {topic: orders, key: ann, value: {amount: 1}}
    - send: {topic: orders, key: bob, value: {amount: 4}}
    - send: {topic: orders, key: ann, value: {amount: 3}}
    - deploy: {file: new.yaml, open: rewind}
    - expect: {topic: baskets, key: cid, value: {count: 3, total: 27}}
    - expect: {topic: larger, key: ann, value: {count: 2, largest: 3}}
    - send: {topic: orders, key: bob, value: {amount: 2}}
    - expect: {topic: larger, key: bob, value: {count: 2, largest: 4}}
    - expect_nothing: baskets
    - expect_nothing: larger
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.yaml").write_text(OLD + TESTS)
    (tmp_path / "new.yaml").write_text(NEW)
    return tmp_path


def test_a_rule_is_deployed_in_the_middle_of_a_test(folder: Path) -> None:
    file = loaded(folder / "app.yaml")
    assert file.app is not None
    verdicts = [play_with_crashes(file.app, case, lambda *_: None) for case in file.cases]
    assert [verdict.failure for verdict in verdicts] == [None, None, None]
    assert all(verdict.deaths > 20 and verdict.lost > 5 for verdict in verdicts)


def test_twin_a_row_that_does_not_name_the_earlier_groups_fails_the_test(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from msgspec.structs import replace

    begin = Takeover._begin

    def forgetful(self: Takeover) -> None:
        begin(self)
        self.owner.source = self.owner.source and replace(self.owner.source, older=())

    monkeypatch.setattr(Takeover, "_begin", forgetful)
    file = loaded(folder / "app.yaml")
    assert file.app is not None
    verdict = play_with_crashes(file.app, file.cases[0], lambda *_: None)
    assert verdict.failure is not None


def test_what_deploy_refuses_fails_at_its_line(folder: Path) -> None:
    (folder / "app.yaml").write_text(OLD + TESTS.replace("open: finish", "open: convert"))
    (folder / "new.yaml").write_text(NEW.replace("{max: amount}", "{last: amount}"))
    file = loaded(folder / "app.yaml")
    assert file.app is not None
    failure = play(file.app, file.cases[0])
    assert failure is not None
    assert (failure.line, "they cannot go on under the new rule" in failure.text) == (13, True)


def test_a_policy_that_does_not_exist_is_found_by_check(folder: Path) -> None:
    (folder / "app.yaml").write_text(OLD + TESTS.replace("open: finish", "open: finsh"))
    [problem] = load(folder / "app.yaml", {}).problems
    assert problem.line == 13


def test_the_driver_deploys(folder: Path) -> None:
    with TestDriver(folder / "app.yaml") as driver:
        driver.send("orders", {"amount": 1}, "ann", times=2)
        driver.deploy("new.yaml", open="finish")
        assert [(event.key, event.count) for event in driver.groups("baskets")] == [("ann", 2)]
        driver.send("orders", {"amount": 5}, "ann")
        [result] = driver.read("baskets")
        assert result.value["total"] == 7
        assert driver.groups("baskets") == []


def test_another_app_is_refused(folder: Path) -> None:
    (folder / "new.yaml").write_text(NEW.replace("app: shop", "app: other"))
    with TestDriver(folder / "app.yaml") as driver, pytest.raises(ConfigurationError, match="another app"):
        driver.deploy("new.yaml")


BAGS = {
    "collect": {"collect": "amount"},
    "count_by": {"count_by": "amount"},
    "percentile": {"percentile": {"field": "amount", "p": 50}},
    "top": {"top": {"field": "amount", "n": 2}},
    "distinct": {"distinct": "amount"},
}


@pytest.mark.parametrize(("before", "after"), [*permutations(BAGS, 2)])
def test_a_claim_after_a_change_of_what_groups_collect_reads_the_entries_of_the_rule_before(
    before: str, after: str
) -> None:
    """The changelog still has them. Their items are of another form."""

    def app(kind: str) -> App:
        rule = {"from": "in", "aggregate": {"count": 2, "compute": {"x": BAGS[kind]}}, "to": {"topic": "out"}}
        file = judge(parse(json.dumps(file_of(rule)), {}, Path()), "shop.yaml", Path())
        assert file.app is not None, file.problems
        return file.app

    with TestDriver(app(before), partitions=1) as driver:
        for amount in (1, 5):  # in two entries; no group is open when the rule changes
            driver.send("in", {"amount": amount}, key="k")
        driver.deploy(app(after))
        driver.send("in", {"amount": 3}, key="k")
        driver.crash()
        driver.send("in", {"amount": 3}, key="k")
        assert driver.troubles() == []
        assert [output.value["count"] for output in driver.read("out")] == [2, 2]
