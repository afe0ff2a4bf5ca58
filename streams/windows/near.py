"""The groups of one window by their keys."""

from sluicegate.streams.aggregation.layout import GroupState

MOST_NEAR = 50_000  # groups of a partition that are found by their keys; the others by their names


class NearGroups(dict[bytes, tuple[bytes, GroupState]]):
    """The open groups of one window by their keys: the name of each, and its state. Most records are of the window of
    the one before. Making the name of the group of each record costs 60 ns (tests/bench/hotpath.py).

    `prefix` is how these names begin. `cut` are the starts of windows that are open, and have groups in `closed`."""

    def __init__(self) -> None:
        super().__init__()
        self.prefix, self.cut = b"", set[int]()

    def turn(self, prefix: bytes) -> None:
        """The records are of this window now."""
        if prefix != self.prefix:
            self.clear()
            self.prefix = prefix

    def note(self, key: bytes, group: bytes, state: GroupState) -> None:
        if len(self) < MOST_NEAR:
            self[key] = group, state
