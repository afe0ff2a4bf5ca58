"""The things that grow, one at a time. Everything else stays as it is in J1 with 1,000 open keys."""

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from tests.bench.growth import inputs, rebuilt
from tests.bench.growth.inputs import Input
from tests.bench.growth.trials import FOLD, MARKED, Cost, Trial, measured, used
from tests.bench.load import PARTITIONS, create, delete
from tests.bench.systems import Running

IDLE = 5.0  # seconds
BYTES = 300_000_000  # of the records of one size, at most
OUTPUTS = 200_000  # of a run, at most
EACH = 1_500  # records of a partition, at least


class Scene:
    """A broker, the records of a run, and the inputs that were made before."""

    def __init__(self, bootstrap: str, records: int) -> None:
        self.bootstrap, self.records = bootstrap, records
        self._inputs: dict[str, Input] = {}

    def input(self, name: str, make: Callable[[str, str], Input]) -> Input:
        """`make(bootstrap, topic)`, once."""
        if name not in self._inputs:
            self._inputs[name] = make(self.bootstrap, f"growth-{name}-{uuid.uuid4().hex[:8]}")
        return self._inputs[name]

    def forget(self) -> None:
        """The topics are removed."""
        if self._inputs:
            delete(self.bootstrap, *(source.topic for source in self._inputs.values()))
        self._inputs.clear()

    def prepared(self, name: str, rule: str, make: Callable[[str, str], Input]) -> Cost:
        """A run on an input that is there before."""
        source = self.input(name, make)
        return measured(self.bootstrap, Trial(source.topic, rule, lambda: source))


class Axis(NamedTuple):
    """`points` are the sizes of what grows; `cost` is one run."""

    title: str
    points: tuple[int, ...]
    cost: Callable[[Scene, int], Cost]


def keys(scene: Scene, x: int) -> Cost:
    return scene.prepared(f"keys-{x}", MARKED, lambda b, topic: inputs.touched(b, topic, x, scene.records))


def partitions(scene: Scene, x: int) -> Cost:
    """So many records that the first third of them covers the claims."""
    records = max(scene.records, EACH * x)
    return scene.prepared(f"partitions-{x}", FOLD, lambda b, topic: inputs.folded(b, topic, records, partitions=x))


def size(scene: Scene, x: int) -> Cost:
    records = max(400, min(scene.records, BYTES // x)) // 10 * 10
    keys = max(2, records // 300)
    return scene.prepared(
        f"size-{x}",
        FOLD.replace("count: 100", "count: 10"),
        lambda b, topic: inputs.folded(b, topic, records, keys, per_key=10, size=x),
    )


def agents(scene: Scene, x: int) -> Cost:
    """One agent gets all records; the others wait for theirs."""
    busy, idle = (f"growth-{name}-{uuid.uuid4().hex[:8]}" for name in ("busy", "idle"))
    create(scene.bootstrap, busy, idle)
    try:
        others = "".join(f"  idle{number}:\n    from: {idle}\n{FOLD}" for number in range(x - 1))
        feed = partial(inputs.poured, scene.bootstrap, busy, scene.records)
        return measured(scene.bootstrap, Trial(busy, FOLD + others, feed, x * PARTITIONS, _idle))
    finally:
        delete(scene.bootstrap, busy, idle)


def _idle(run: Running) -> Mapping[str, float]:
    return {"idle, % of a core": 100 * used(run, IDLE)}


def routes(scene: Scene, x: int) -> Cost:
    """A record goes to one of x routes, by chance."""
    edges = [1000 * (number + 1) // x for number in range(x - 1)]
    listed = "".join(f'      - {{{{topic: "{{app}}.out", where: "amount < {edge}"}}}}\n' for edge in edges)
    rule = f'    to:\n{listed}      - {{{{topic: "{{app}}.out"}}}}\n'
    records = min(scene.records, OUTPUTS)
    return scene.prepared("routes", rule, lambda b, topic: inputs.forwarded(b, topic, records))


def results(scene: Scene, x: int) -> Cost:
    """A record goes to each of x routes, all of whose conditions are true."""
    listed = "".join(
        f'      - {{{{topic: "{{app}}.out", where: "amount >= {-number}", continue: true}}}}\n'
        for number in range(x - 1)
    )
    rule = f'    to:\n{listed}      - {{{{topic: "{{app}}.out"}}}}\n'
    records = max(1000, min(scene.records, OUTPUTS) // x)
    return scene.prepared(f"results-{x}", rule, lambda b, topic: inputs.forwarded(b, topic, records, x))


def history(scene: Scene, x: int) -> Cost:
    source = scene.input(f"history-{x}", lambda b, topic: inputs.folded(b, topic, x, min(1000, x // 300), cut=True))
    return rebuilt.cost(scene.bootstrap, source)


AXES = {
    "keys": Axis("open keys", (1_000, 10_000, 100_000, 300_000, 1_000_000), keys),
    "partitions": Axis("partitions of a worker", (1, 4, 16, 64, 256, 512), partitions),
    "agents": Axis("agents in a file", (1, 3, 10, 30, 100), agents),
    "size": Axis("bytes of a record", (100, 1_000, 10_000, 100_000, 900_000), size),
    "routes": Axis("routes", (1, 3, 10, 30, 100), routes),
    "results": Axis("results of a record", (1, 3, 10, 30, 100), results),
    "history": Axis("records of history, rebuilt", (10_000, 100_000, 1_000_000), history),
}
