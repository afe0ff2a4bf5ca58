"""Cycles of dependencies, by the names that Adya gave them: G0, G1c, G-single and G2-item."""

from collections.abc import Collection, Set

from tests.histories.checker.anomaly import Anomaly
from tests.histories.checker.graph import Graph, Kind, Step
from tests.histories.checker.history import Transaction

DATA = {Kind.WW, Kind.WR, Kind.RW}
LEVELS: tuple[tuple[str, Set[Kind]], ...] = (
    ("", frozenset()),
    ("-process", frozenset({Kind.PROCESS})),
    ("-realtime", frozenset({Kind.PROCESS, Kind.REALTIME})),
)
"""The order within processes and in real time is used only where the data alone have no cycle."""


def cyclic(graph: Graph, transactions: list[Transaction]) -> list[Anomaly]:
    """One anomaly of each kind for each component: of cycles with reads that missed something the strongest kind."""
    anomalies: list[Anomaly] = []
    for component in graph.components(DATA | LEVELS[-1][1]):
        for ending, order in LEVELS:
            cycles = _cycles(graph, component, order)
            anomalies += [Anomaly(kind + ending, _evidence(cycle, transactions)) for kind, cycle in cycles.items()]
            if cycles:
                break
    return anomalies


def _cycles(graph: Graph, component: Collection[int], order: Set[Kind]) -> dict[str, list[Step]]:
    cycles: dict[str, list[Step]] = {}
    for kind, step, way in (
        ("G0", Kind.WW, {Kind.WW}),
        ("G1c", Kind.WR, {Kind.WW, Kind.WR}),
        ("G-single", Kind.RW, {Kind.WW, Kind.WR}),
        ("G2-item", Kind.RW, DATA),
    ):
        if kind == "G2-item" and "G-single" in cycles:
            continue
        cycle = _cycle(graph, component, step, way | order)
        if cycle is not None:
            cycles[kind] = cycle
    return cycles


def _cycle(graph: Graph, nodes: Collection[int], kind: Kind, way: Set[Kind]) -> list[Step] | None:
    """The shortest cycle of the first step of this kind that can be closed by this way."""
    for part in graph.components(way | {kind}, nodes):
        ranks = graph.ranks(way, part)
        for before, after in graph.steps(part, kind):
            back = graph.path(after, before, way, ranks) if ranks[after] >= ranks[before] else None
            if back is not None:
                return [(before, kind, after), *back]
    return None


def _evidence(cycle: list[Step], transactions: list[Transaction]) -> str:
    """Moments of real time are left out."""
    lines: list[str] = []
    begin = next((number for number, step in enumerate(cycle) if step[0] >= 0), 0)
    for before, kind, after in [*cycle[begin:], *cycle[:begin]]:
        if before >= 0:
            lines.append(f"{transactions[before]} -{kind.value}-> ")
        if after >= 0:
            lines[-1] += str(transactions[after])
    return "\n    ".join(["", *lines])
