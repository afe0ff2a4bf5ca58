"""One seed, from its plan to its verdict."""

from collections import Counter
from typing import NamedTuple

from tests.simulation.dispatch.judge import judge
from tests.simulation.dispatch.plan import Plan, plan
from tests.simulation.dispatch.world import World
from tests.simulation.run import silent


class Outcome(NamedTuple):
    """`findings`: what is wrong; `weak`: why the run proves little."""

    plan: Plan
    findings: tuple[str, ...]
    hits: Counter[str]
    overlaps: int
    digest: str

    @property
    def weak(self) -> str:
        faults = self.hits.total()
        return f"{faults} faults" if faults < 20 else ""


def run(which: Plan | int, kind: str | None = None) -> Outcome:
    """One seed, or a plan of one with less in it."""
    chosen = plan(which, kind) if isinstance(which, int) else which
    with silent():
        world = World(chosen).run()
    return Outcome(chosen, tuple(judge(world)), world.hits, world.overlaps, world.digest())
