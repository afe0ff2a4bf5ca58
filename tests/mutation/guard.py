"""What one entry of the tables says."""

from typing import NamedTuple

NEVER = "if False:"


class Guard(NamedTuple):
    """`text` stands exactly once in `file`; with `instead` in its place one of `tests` (pytest's arguments, tried in
    order) must fail."""

    promise: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]
    only: str = ""
    """pytest's -k: which tests, or which store."""
