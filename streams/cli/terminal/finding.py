"""A command's finding about a system."""

from typing import NamedTuple


class SystemFinding(NamedTuple):
    """A fact about a system: `ok`, or the problem and its remedy (`hint`)."""

    system: str
    ok: bool
    text: str
    hint: str = ""
