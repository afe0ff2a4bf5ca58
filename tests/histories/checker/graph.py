"""Dependencies of transactions on each other, the strongly connected components, and the cycles in them."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Set
from enum import Enum


class Kind(Enum):
    """Why one transaction comes before another."""

    WW = "ww"  # it appended the element before
    WR = "wr"  # the other one read what it appended
    RW = "rw"  # it did not read what the other one appended
    PROCESS = "process"
    REALTIME = "realtime"


Step = tuple[int, Kind, int]


class Graph:
    """Edges of several kinds between numbered transactions, and moments of real time, which have numbers below 0."""

    def __init__(self) -> None:
        self._edges: dict[int, dict[int, set[Kind]]] = defaultdict(lambda: defaultdict(set))

    def add(self, before: int, kind: Kind, after: int) -> None:
        if before != after:
            self._edges[before][after].add(kind)

    def next(self, node: int, kinds: Set[Kind]) -> Iterator[int]:
        return (after for after, why in self._edges[node].items() if why & kinds) if node in self._edges else iter(())

    def steps(self, nodes: Collection[int], kind: Kind) -> Iterator[tuple[int, int]]:
        """The edges of this kind between these transactions."""
        return ((node, after) for node in nodes for after in self.next(node, {kind}) if after in nodes)

    def components(self, kinds: Set[Kind], within: Collection[int] | None = None) -> list[set[int]]:
        """Strongly connected, of more than one transaction: Tarjan's algorithm without recursion."""
        return [component for component in self._components(kinds, within) if len(component) > 1]

    def ranks(self, kinds: Set[Kind], within: Collection[int]) -> dict[int, int]:
        """By these kinds a transaction reaches those of its own rank in its component, and some of lower ranks."""
        components = self._components(kinds, within)
        return {node: rank for rank, component in enumerate(components) for node in component}

    def _components(self, kinds: Set[Kind], within: Collection[int] | None) -> list[set[int]]:
        search = _Tarjan(self, kinds, None if within is None else set(within))
        for node in list(self._edges) if within is None else within:
            search.visit(node)
        return search.components

    def path(self, start: int, goal: int, kinds: Set[Kind], ranks: dict[int, int]) -> list[Step] | None:
        """The shortest way from `start` to `goal` by these kinds, through transactions that have `ranks`."""
        lowest = ranks[goal]
        before: dict[int, int] = {start: start}
        queue = deque([start])
        while queue and goal not in before:
            node = queue.popleft()
            for after in self.next(node, kinds):
                if after not in before and ranks.get(after, -1) >= lowest:
                    before[after] = node
                    queue.append(after)
        if goal not in before:
            return None
        steps: list[Step] = []
        while goal != start:
            steps.append((before[goal], self.why(before[goal], goal, kinds), goal))
            goal = before[goal]
        return steps[::-1]

    def why(self, before: int, after: int, kinds: Set[Kind]) -> Kind:
        """The strongest reason of these kinds."""
        return next(kind for kind in Kind if kind in kinds and kind in self._edges[before][after])


class _Tarjan:
    """A component comes behind those that it reaches."""

    def __init__(self, graph: Graph, kinds: Set[Kind], within: set[int] | None) -> None:
        self._graph, self._kinds, self._within = graph, kinds, within
        self._index: dict[int, int] = {}
        self._low: dict[int, int] = {}
        self._stack: list[int] = []
        self._stacked: set[int] = set()
        self.components: list[set[int]] = []

    def visit(self, root: int) -> None:
        if root in self._index:
            return
        work = [(root, self._open(root))]
        while work:
            node, following = work[-1]
            for after in following:
                if after not in self._index:
                    work.append((after, self._open(after)))
                    break
                if after in self._stacked:
                    self._low[node] = min(self._low[node], self._index[after])
            else:
                work.pop()
                if work:
                    self._low[work[-1][0]] = min(self._low[work[-1][0]], self._low[node])
                self._close(node)

    def _open(self, node: int) -> Iterator[int]:
        self._index[node] = self._low[node] = len(self._index)
        self._stack.append(node)
        self._stacked.add(node)
        following = self._graph.next(node, self._kinds)
        return (after for after in following if self._within is None or after in self._within)

    def _close(self, node: int) -> None:
        if self._low[node] != self._index[node]:
            return
        component: set[int] = set()
        while node not in component:
            component.add(self._stack.pop())
        self._stacked -= component
        self.components.append(component)
