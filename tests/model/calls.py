"""What the models of the leased contracts share: actors that call a store, and what may go wrong with a call.

A call is a packet `(what, token, *arguments)` that lands as one transaction: `land(setup, store, packet)` gives the
store after it and the reply. A lease may run out at any time (`overs`), so nobody's safety may depend on a clock.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Step = tuple[tuple, Any]
Land = Callable[[Any, tuple], tuple[Any, Any]]
REFUSED = "refused"


class Trouble(NamedTuple):
    """How much may still go wrong: this alone makes the space finite. `faults` are calls whose bytes or replies go
    astray, `replies` those that only get no answer; `overs` are leases that run out, `errors` those of the broker."""

    faults: int = 0
    crashes: int = 0
    overs: int = 0
    errors: int = 0
    replies: int = 0


CALM = Trouble(overs=1 << 30)
"""Faults have stopped; the leases of those who are gone run out, however often."""


def put(world: Any, index: int, actor: Any, **changed: Any) -> Any:
    """The world with one actor replaced; actors are kept sorted, because who is first does not matter."""
    return world._replace(actors=tuple(sorted((*world.actors[:index], actor, *world.actors[index + 1 :]))), **changed)


def less(world: Any, kind: str) -> Trouble:
    """What may still go wrong after one more of `kind` did."""
    if world.trouble == CALM:
        return CALM
    return world.trouble._replace(**{kind: getattr(world.trouble, kind) - 1})


def claiming(world: Any) -> Any | None:
    """The world in which an actor claims what `store.token` names, under the newest token. None: another actor holds
    it, and no lease runs out any more."""
    held_by_another = any(other.name and other.name == world.store.token for other in world.actors)
    if held_by_another and not world.trouble.overs:
        return None
    trouble = less(world, "overs") if held_by_another else world.trouble
    return world._replace(tokens=world.tokens + 1, trouble=trouble)


def called(
    land: Land, world: Any, index: int, packet: tuple, next_owner: Callable[[Any], Any], unheard: Any
) -> Iterator[Step]:
    """One call of one actor: answered (`heard(reply)` is the actor after it), its bytes late, its reply lost
    (`unheard`), or sent twice."""
    store, reply = land(world.store, packet)
    label = (packet[0], world.actors[index].name, packet[2:])
    changed = put(world, index, next_owner(reply), store=store)
    yield (*label, REFUSED) if reply == REFUSED else label, changed
    if world.trouble.replies and store != world.store:
        yield (*label, "reply lost"), put(world, index, unheard, trouble=less(world, "replies"), store=store)
    if not world.trouble.faults:
        return
    trouble, wire = less(world, "faults"), tuple(sorted((*world.wire, packet)))
    unknown = put(world, index, unheard, trouble=trouble)
    yield (*label, "bytes late"), unknown._replace(wire=wire)
    if store != world.store:
        yield (*label, "reply lost"), unknown._replace(store=store)
        yield (*label, "sent twice"), changed._replace(trouble=trouble, wire=wire)


def late(land: Land, world: Any) -> Iterator[Step]:
    """Bytes whose sender gave up arrive."""
    for at, packet in enumerate(world.wire):
        store, reply = land(world.store, packet)
        rest = (*world.wire[:at], *world.wire[at + 1 :])
        yield (
            (f"late {packet[0]}", packet[1], packet[2:], REFUSED if reply == REFUSED else "lands"),
            world._replace(store=store, wire=rest),
        )
