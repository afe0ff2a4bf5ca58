"""Which faults came true in which state of a worker, and which pairs no seed has met."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.simulation.plan import ANSWERS, MIDDLES, OF_SWARM, OFTEN

STATES = ("none", "waiting", "restoring", "halted", "pending", "calls", "unsent", "waits for a deadline", "idle")
"""Of a worker between two turns; the first that is true. `none`: no partition is assigned; `waiting`: to claim one
again; `pending`: records are accepted and not committed; `calls`: slow handlers run; `unsent`: rows are not sent."""
PLACED = frozenset(("kill-at", "raise-at", "lost-at", "pause-at"))
BETWEEN = tuple(name for name in OFTEN | OF_SWARM if name not in PLACED)

Met = Counter[tuple[str, str]]
"""How often, by the fault and the state, or the place of the protocol."""


def state_of(worker: Any) -> str:
    """One of STATES."""
    claims = worker._claims
    owners = worker._owners.values()
    truths = {
        "none": not claims.assigned,
        "waiting": bool(claims.retries.waiting),
        "restoring": bool(claims._taking),
        "halted": any(state == "halted" for state in (report.state for report in claims.others())),
        "pending": any(owner.intake.pending for owner in owners),
        "calls": any(owner.sealed.running for owner in owners),
        "unsent": any(owner.shard.unsent for owner in owners),
        "waits for a deadline": any(owner.groups.open for owner in owners),
    }
    return next((state for state in STATES if truths.get(state)), "idle")


def never(met: Met) -> list[str]:
    """The pairs of a fault between two turns and a state that were not met, and the places without their faults."""
    pairs = [f"{fault} x {state}" for fault in BETWEEN for state in STATES if not met[fault, state]]
    lost = [f"lost-at x {place}" for place in ANSWERS if not met["lost-at", place]]
    return pairs + lost + [f"pause-at x {place}" for place in dict.fromkeys(MIDDLES) if not met["pause-at", place]]


def table(met: Met) -> str:
    """Two tables in Markdown: faults by state, and faults by place."""
    places = sorted({place for fault, place in met if fault in PLACED})
    return "\n".join([*_rows("fault", BETWEEN, STATES, met), "", *_rows("place", places, sorted(PLACED), _turned(met))])


def _turned(met: Met) -> Met:
    return Counter({(state, fault): times for (fault, state), times in met.items()})


def _rows(corner: str, rows: Iterable[str], columns: Iterable[str], met: Met) -> list[str]:
    names = list(columns)
    head = [f"| {corner} | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    return head + [f"| `{row}` | {' | '.join(f'{met[row, name]:,}' for name in names)} |" for row in rows]
