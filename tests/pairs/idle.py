"""Keys that change nothing: alone, or beside another key.

A feature changes something if an agent with it does anything else with the input of its kind than without it. Without
it, its basis remains.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from tests.pairs import effects
from tests.pairs.features import CHANGE, FEATURES, Tree, composed, merged, over, pairs, singles
from tests.pairs.judge import loaded, verdict


def written(agent: Tree) -> str:
    return json.dumps(agent, sort_keys=True)


@cache
def outcome(kind: str, *texts: str) -> str | None:
    """A digest of all that is seen of an agent, and of its changed form; None: `check` refuses one of the two."""
    apps = [loaded(json.loads(text)).app for text in texts]
    if None in apps:
        return None
    first, *changed = apps
    seen = effects.Play(first, kind, *changed).seen()
    return hashlib.sha256("\n".join(seen).encode()).hexdigest()


def changes(kind: str, name: str, beside: Tree) -> bool:
    """Whether the feature changes something beside these keys; also where one of the two files is refused."""
    feature = FEATURES[name]
    if merged(beside, feature.keys) == beside:
        return True
    agents = composed(kind, feature.keys, beside), composed(kind, feature.basis, beside)
    if None in agents:
        return True
    outcomes = {outcome(kind, *_texts(kind, name, agent, agents[1])) for agent in agents}
    return None in outcomes or len(outcomes) == 2


def _texts(kind: str, name: str, agent: Tree, without: Tree) -> tuple[str, ...]:
    """The agent with which the play begins, and for a feature of changes the one with which it goes on."""
    if name == "revision":
        return written(without), written(agent)
    if name.startswith("on_change"):
        changed = over(agent, CHANGE[kind])
        return written(agent), written(changed)
    return (written(agent),)


def alone(kind: str) -> Iterator[str]:
    """The features that change nothing in an agent of this kind that has only what it must have."""
    names = [name for one, name in singles() if one == kind and not verdict(kind, name)]
    return (name for name in names if not changes(kind, name, {}))


def idle(kind: str) -> Iterator[tuple[str, str]]:
    """Each feature that changes something alone, and one beside which it changes nothing."""
    without = {*alone(kind)}
    for one, *both in pairs():
        if one == kind and not any(verdict(kind, name) for name in both) and not verdict(kind, *both):
            for name, other in (both, both[::-1]):
                if name not in without and not changes(kind, name, FEATURES[other].keys):
                    yield name, other


LIST = Path(__file__).with_name("idle.txt")
"""All that changes nothing, one a line, with the reason."""
PLAYED = ("forwarder", "handler of records")
"""The kinds whose pairs are played. Each takes up to two minutes of a processor."""
REASONS: Mapping[tuple[str, str], str] = {
    ("let", ""): "a computed field serves the clauses that name it",
    ("fields", ""): "it tells check the types of fields, and changes no result",
    ("topics by a pattern", ""): "the input has one topic, which the pattern matches",
    ("raw records", ""): "without a clause that reads it, a value of any format goes on as it came",
    ("dead_letters", ""): "without a clause that reads values, no record of the input becomes a dead letter",
    ("on_error: stop_above", ""): "without a clause that reads values, no record of the input becomes a dead letter",
    (
        "on_error: stop_above",
        "then: *",
    ): "what fails for good is parked or halts the partition, and is not a dead letter",
    ("delivery: transactional", "*"): "a reader sees the same results",
    ("revision", "*"): "it names the code: another digest of the rule, and the same results",
    ("lookup in a *", "select of records"): "select names all that is written, and not the row",
    ("* results", "raw records"): "the handler sends the bytes of the raw record, which are written as they are",
}
"""By the feature and the one beside it, as patterns; the second one is empty for a feature alone."""


def reason(name: str, other: str = "") -> str:
    """Why it is right that the feature changes nothing. Empty: it is not known to be right."""
    matches = (why for (one, beside), why in REASONS.items() if fnmatch(name, one) and fnmatch(other, beside))
    return next(matches, "")


def table(kind: str) -> Iterator[str]:
    """The lines of a kind."""
    yield from (f"{kind}, {name}: {reason(name)}" for name in alone(kind))
    yield from (f"{kind}, {name} beside {other}: {reason(name, other)}" for name, other in idle(kind))
