"""What the faults do that only a dispatcher's plan has."""

from typing import Any

from tests.simulation.faults import EVERYWHERE
from tests.simulation.plan import Fault
from tests.simulation.scheduler import Action


def _lost(world: Any, fault: Fault, process: Any) -> bool:
    process.lost = True
    return False  # noted when a reply is


ACTIONS: dict[str, Action] = EVERYWHERE | {"lost": _lost}
