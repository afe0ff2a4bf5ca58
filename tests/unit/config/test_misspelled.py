"""An input that no agent writes and that looks like an output of the file: a warning, for it may be misspelled."""

from pathlib import Path

import pytest

from sluicegate.streams.hints import misspelled
from tests.unit.config.files import HEAD, lines, loaded

ALL = ("minutes", "silent-devices", "shop.orders.v2", "shop.orders-eu", "log", "readings")
TWO = """\
agents:
  a: {{from: readings, to: {{topic: {a}}}}}
  b: {{from: {b}, to: {{topic: end}}}}
"""


@pytest.mark.parametrize(
    ("topic", "meant"),
    [
        *((name, "minutes") for name in ("minuts", "minuetes", "mintues", "Minutes", "minutez")),
        *((name, "silent-devices") for name in ("silentdevices", "silent_devices", "silent-device", "silnet-devices")),
        *((name, "") for name in (*ALL, "shop.orders.v1", "shop.orders-us", "lag", "minimum", "minutes.raw", "orders")),
    ],
)
def test_a_misspelling_is_near_and_a_name_with_a_meaning_is_not(topic: str, meant: str) -> None:
    assert misspelled(topic, ALL) == meant


def warned(folder: Path, a: str, b: str) -> list[str]:
    file = loaded(folder, HEAD + TWO.format(a=a, b=b))
    assert file.problems == ()
    return [line for line in lines(file.warnings, folder) if "no agent writes" in line]


def test_an_input_that_looks_like_an_output_is_warned_of(tmp_path: Path) -> None:
    what = "agents.b.from: reads minuts, which no agent writes; did you mean minutes?"
    assert warned(tmp_path, "minutes", "minuts") == [f"f.yaml:7:{len('  b: {') + 1}: {what}"]


@pytest.mark.parametrize("b", ["minutes", "orders", "reading", "ends"])
def test_an_output_another_topic_and_an_own_output_are_not(tmp_path: Path, b: str) -> None:
    """`reading` looks like an input, and `ends` like what the agent itself writes: both may be topics of others."""
    assert warned(tmp_path, "minutes", b) == []
