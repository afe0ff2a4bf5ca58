"""What `check` says about a pair."""

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sluicegate.streams.config import loading
from sluicegate.streams.config.loading import Loaded
from sluicegate.streams.config.text import document
from tests.pairs import schemas
from tests.pairs.features import KINDS, Tree, pairs, placed, singles

LIST = Path(__file__).with_name("refused.txt")
"""All refusals: each contradiction with what `check` says, and below it the features and the kinds of agents."""


def file_of(agent: Tree, store: str = "sqlite:///state.db", kafka: str = "localhost:9092") -> Tree:
    return {
        "app": "shop",
        "kafka": {"default": "east", "east": {"bootstrap.servers": kafka}, "west": {"bootstrap.servers": kafka}},
        "store": store,
        "dead_letters": "shop.dead",
        "agents": {"a": agent},
    }


@cache
def folder() -> Path:
    """A folder with the schemas, for the life of the process."""
    made = Path(tempfile.mkdtemp(prefix="pairs-"))
    schemas.write(made)
    return made


def loaded(agent: Tree) -> Loaded:
    return _loaded(json.dumps(agent, sort_keys=True))


@cache
def _loaded(agent: str) -> Loaded:
    """JSON is YAML, and is written faster."""
    text = json.dumps(file_of(json.loads(agent)))
    return loading.judge(document.parse(text, {}, folder()), "shop.yaml", folder())


@cache
def file_with(kind: str, *names: str) -> Loaded | None:
    """The file with the agent; None when the features are alternatives."""
    agent: Any = placed(kind, *names)
    return None if agent is None else loaded(agent)


@cache
def verdict(kind: str, *names: str) -> tuple[str, ...] | None:
    """The problems of the agent; None when the features are alternatives."""
    file = file_with(kind, *names)
    return (
        None
        if file is None
        else tuple(sorted({shown(f"{problem.key}: {problem.message}") for problem in file.problems}))
    )


def shown(text: str) -> str:
    """Without the name of the agent."""
    return re.sub(r"^agents\.a\.?", "", text)


class Refusal(NamedTuple):
    """`why` is what `check` says of the keys, without their names."""

    why: str
    features: str
    kind: str


@cache
def refusals(kinds: tuple[str, ...] = tuple(KINDS)) -> tuple[Refusal, ...]:
    """The refusals of these kinds. A pair counts only where each of the two alone is accepted."""
    every: list[tuple[str, ...]] = [(kind, name) for kind, name in singles() if kind in kinds]
    every += [(kind, *both) for kind, *both in pairs() if kind in kinds and not any(verdict(kind, one) for one in both)]
    return tuple(Refusal(why, " + ".join(names), kind) for kind, *names in every if (why := _why(kind, names)))


def _why(kind: str, names: Sequence[str]) -> str:
    reasons = {problem.partition(": ")[2] for problem in verdict(kind, *names) or ()}
    return " | ".join(sorted({re.sub(r"(?<=needs )the field \w+", "a field", reason) for reason in reasons}))


def table() -> Iterator[str]:
    """The lines of the list."""
    reasons = dict[str, dict[str, list[str]]]()
    for why, features, kind in refusals():
        reasons.setdefault(why, {}).setdefault(features, []).append(kind)
    yield f"{len(refusals())} pairs are refused, for {len(reasons)} reasons"
    for why, pairs_of in sorted(reasons.items()):
        yield f"{sum(map(len, pairs_of.values()))}: {why}"
        yield from (f"    {features}: {', '.join(kinds)}" for features, kinds in pairs_of.items())
