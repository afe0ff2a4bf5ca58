"""What a command found out about a system."""

from typing import NamedTuple


class SystemFinding(NamedTuple):
    """One thing about a system: `ok`, or what it lacks and what to do (`hint`)."""

    system: str
    ok: bool
    text: str
    hint: str = ""
