"""A saga: an order is paid within 15 minutes of being placed, or it is cancelled."""

from datetime import timedelta

from sqlalchemy import text

from sluicegate.connectors.sessions import MemorySession

WAIT = timedelta(minutes=15)
READ = text("select state from orders where id = :id")
ADD = text("insert into orders (id, state) values (:id, :state)")
CHANGE = text("update orders set state = :state where id = :id")


def step(value, session, schedule, cancel, send):
    order, event = value["order"], value["event"]
    match event, state(session, order):
        case "placed", None:
            become(session, order, "waiting", ADD)
            schedule({"event": "overdue", "order": order}, after=WAIT, name=f"payment of {order}")
        case "paid", "waiting":
            become(session, order, "paid", CHANGE)
            cancel(f"payment of {order}")
            send({"order": order, "do": "ship"})
        case "overdue", "waiting":
            become(session, order, "cancelled", CHANGE)
            send({"order": order, "do": "cancel"})
        case "paid", "cancelled":
            send({"order": order, "do": "refund"})


def state(session, order):
    if isinstance(session, MemorySession):
        return session.values.get(order)
    return session.connection.scalar(READ, {"id": order})


def become(session, order, state, change):
    if isinstance(session, MemorySession):
        session.values[order] = state
    else:
        session.connection.execute(change, {"id": order, "state": state})
