"""The step `deploy` where windows and correlations are open: they finish under the earlier rule, whatever dies."""

from pathlib import Path

import pytest

from sluicegate.streams.config.loading import Loaded
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play, play_with_crashes

HEAD = """\
app: shop
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
dead_letters: shop.dead
agents:
"""
WINDOW = """\
  a:
    from: orders
    aggregate: {window: {tumbling: 1m, time: {field: at, unit: s}}, compute: {total: {sum: amount}}}
    to: {topic: out}
"""
SESSION = WINDOW.replace("tumbling: 1m", "session: 1m")
REPARTITIONED = WINDOW + "    key: shop\n    repartition: by-shop\n"
CORRELATED = """\
  a:
    correlate:
      legs: {order: orders, payment: {from: payments, key: id}}
      timeout: 60s
    to: {topic: out}
"""
BY_WORKER = CORRELATED.replace("timeout: 60s", "timeout: {after: 60s, clock: wall}")


def changed(text: str) -> str:
    """Another field is computed, or another deadline holds."""
    return text.replace("total: {sum", "most: {max").replace("60s", "30s").replace("topic: out", "topic: new")


RECORDS = """\
    - send: {topic: orders, key: ann, value: {at: 1700000001, amount: 1, shop: s}, times: 2}
    - advance: 1s
    - deploy: {file: new.yaml, open: finish}
    - send: {topic: orders, key: ann, value: {at: 1700000009, amount: 5, shop: s}}
    - send: {topic: orders, key: bob, value: {at: 1700000049, amount: 7, shop: t}}
    - send: {topic: orders, key: bob, value: {at: 1700000050, amount: 4, shop: t}}
    - send: {topic: orders, key: cid, value: {at: 1700000300, amount: 4, shop: u}}
    - advance: 300s
"""
LEGS = """\
    - send: {topic: payments, key: x, value: {id: ann, amount: 1}}
    - deploy: {file: new.yaml, open: finish}
    - send: {topic: payments, key: x, value: {id: bob, amount: 2}}
    - advance: 40s
    - send: {topic: orders, key: ann, value: {amount: 3}}
    - expect: {topic: out, key: ann, value: {order: {amount: 3}, payment: {amount: 1}}}
    - expect: {topic: new, key: bob, value: {payment: {amount: 2}}, reason: timeout}
"""


def of_windows(ann: str, bob: str, cid: str) -> str:
    wanted = f"""\
    - expect: {{topic: out, key: {ann}, value: {{count: 3, total: 7}}, reason: window}}
    - expect: {{topic: new, key: {bob}, value: {{count: 2, most: 7}}, reason: window}}
    - expect: {{topic: new, key: {cid}, value: {{count: 1, most: 4}}, reason: window}}
    - expect_nothing: out
"""
    return RECORDS + wanted


CASES = {"tumbling": (WINDOW, of_windows("ann", "bob", "cid")), "by the worker's clock": (BY_WORKER, LEGS)}


def prepared(tmp_path: Path, text: str, steps: str) -> Loaded:
    (tmp_path / "app.yaml").write_text(f"{HEAD}{text}tests:\n  t:\n{steps}")
    (tmp_path / "new.yaml").write_text(HEAD + changed(text))
    return loaded(tmp_path / "app.yaml")


@pytest.mark.timeout(1200)  # 480 plays take 35 s of CPU time: 300 s have been seen where many processes want the CPUs
@pytest.mark.parametrize("name", CASES)
def test_what_is_open_finishes_whatever_dies(tmp_path: Path, name: str) -> None:
    file = prepared(tmp_path, *CASES[name])
    assert file.app is not None, file.problems
    verdict = play_with_crashes(file.app, file.cases[0], lambda *_: None)
    assert verdict.failure is None
    assert verdict.deaths > 20


@pytest.mark.parametrize(
    ("text", "keys"), [(SESSION, ("ann", "bob", "cid")), (REPARTITIONED, ("s", "t", "u"))], ids=["sessions", "re-keyed"]
)
def test_windows_finish_by_the_watermark(tmp_path: Path, text: str, keys: tuple[str, str, str]) -> None:
    """Also by the marks of the origins of a repartitioned topic."""
    file = prepared(tmp_path, text, of_windows(*keys))
    assert file.app is not None, file.problems
    assert play(file.app, file.cases[0]) is None
