"""Each pair of features is accepted, or stands in the list of refusals with what `check` says."""

import pytest

from tests.pairs import replays
from tests.pairs.features import KINDS
from tests.pairs.judge import LIST, refusals


@pytest.mark.parametrize("kind", KINDS)
def test_what_check_refuses_stands_in_the_list(kind: str) -> None:
    """`python -m tests.pairs` writes the list; a refusal that is new needs a contradiction in its meaning."""
    listed = [line for line in LIST.read_text(encoding="utf-8").splitlines() if line.startswith(f"{kind}, ")]

    assert [*refusals((kind,))] == listed


def test_what_each_replay_refuses_stands_in_the_list() -> None:
    """`python -m tests.pairs` writes it, too."""
    assert [*replays.table()] == replays.LIST.read_text(encoding="utf-8").splitlines()
