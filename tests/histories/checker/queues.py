"""The checker of queues: nothing is lost, nothing counts twice for a receiver that drops what it knows, and the
elements of a key come in their order."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.histories.checker.anomaly import Anomaly
from tests.histories.checker.history import Delivery, Element


def judged_queue(elements: Sequence[Element], deliveries: Sequence[Delivery], ordered: bool = True) -> list[Anomaly]:
    """`deliveries` are complete: whatever will ever come has come. Without `ordered` any order is right."""
    kept = _received(deliveries)
    anomalies = [*_identities(deliveries), *_counted(elements, kept), *_early(elements, deliveries)]
    return anomalies + (list(_order(elements, kept)) if ordered else [])


def _received(deliveries: Sequence[Delivery]) -> list[Delivery]:
    """What a receiver takes that drops what it knows."""
    first: dict[str, Delivery] = {}
    for delivery in deliveries:
        first.setdefault(delivery.identity, delivery)
    return list(first.values())


def _identities(deliveries: Sequence[Delivery]) -> Iterator[Anomaly]:
    first: dict[str, Delivery] = {}
    for delivery in deliveries:
        known = first.setdefault(delivery.identity, delivery)
        if known.name != delivery.name:
            why = f"{delivery.identity} came with {known.name}, then with {delivery.name}: a receiver drops the second"
            yield Anomaly("reused-identity", why)


def _counted(elements: Sequence[Element], kept: Sequence[Delivery]) -> Iterator[Anomaly]:
    identities: dict[str, list[str]] = defaultdict(list)
    for delivery in kept:
        identities[delivery.name].append(delivery.identity)
    known = {element.name: element for element in elements}
    for name, names in identities.items():
        if name not in known:
            yield Anomaly("garbage-delivery", f"{name} was never put into the queue")
        elif known[name].outcome == "fail":
            yield Anomaly("aborted-delivery", f"{name} was delivered, and its transaction had failed")
        if len(names) > 1:
            yield Anomaly("repeated", f"{name} was delivered under {len(names)} identities: {', '.join(names)}")
    for element in elements:
        if element.outcome == "ok" and element.name not in identities:
            yield Anomaly("lost", f"{element.name} was never delivered")


def _early(elements: Sequence[Element], deliveries: Sequence[Delivery]) -> Iterator[Anomaly]:
    due = {element.name: element.due for element in elements}
    for delivery in deliveries:
        if 0 < delivery.at < due.get(delivery.name, 0.0):
            yield Anomaly("early", f"{delivery.name} came {due[delivery.name] - delivery.at:.3f} s before its time")


def _order(elements: Sequence[Element], kept: Sequence[Delivery]) -> Iterator[Anomaly]:
    number = {element.name: number for number, element in enumerate(elements)}
    last: dict[tuple[str, str], Delivery] = {}
    for delivery in kept:
        before = last.get((delivery.line, delivery.key))
        if before and number.get(delivery.name, 0) < number.get(before.name, 0):
            yield Anomaly("order", f"{delivery.name} of {delivery.key} came after {before.name}")
        last[delivery.line, delivery.key] = delivery
