"""What `check` says about a pair."""

import json
import re
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sluicegate.streams.config import document, loading
from sluicegate.streams.config.loading import Loaded
from tests.pairs import schemas
from tests.pairs.features import KINDS, Tree, pairs, placed, singles

LIST = Path(__file__).with_name("refused.txt")
"""All refusals, one a line: the kind, its features, and what `check` says."""


def file_of(agent: Tree, store: str = "sqlite:///state.db", kafka: str = "localhost:9092") -> Tree:
    return {
        "app": "shop",
        "kafka": {"bootstrap.servers": kafka},
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
    return None if file is None else tuple(sorted({shown(f"{each.key}: {each.message}") for each in file.problems}))


def shown(text: str) -> str:
    """Without the name of the agent."""
    return re.sub(r"^agents\.a\.?", "", text)


@cache
def refusals(kinds: tuple[str, ...] = tuple(KINDS)) -> tuple[str, ...]:
    """The refusals of these kinds. A pair counts only where each of the two alone is accepted."""
    lines = [_line(kind, (name,)) for kind, name in singles() if kind in kinds]
    lines += [
        _line(kind, both) for kind, *both in pairs() if kind in kinds and not any(verdict(kind, name) for name in both)
    ]
    return tuple(line for line in lines if line)


def _line(kind: str, names: Sequence[str]) -> str:
    problems = verdict(kind, *names)
    return f"{kind}, {' + '.join(names)}: {' | '.join(problems)}" if problems else ""
