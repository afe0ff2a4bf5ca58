"""A store with an example of all that commands list: names of topics of 40 characters, and keys that are UUIDs."""

from pathlib import Path
from uuid import UUID

from sluicegate.connectors import open_store
from sluicegate.streams import OutboxMessage, Timeout
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.contracts.messages import Outcome
from sluicegate.streams.versions import mac_keys
from tests.unit.cli.log_topics import LogTopics
from tests.unit.cli.test_leased_commands import DUE
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver, ManualClock
from tests.unit.engine.scene import a_log, feed

ORDERS, BILLS, MAILS, OUT, DEAD = (
    f"{name:-<37}-v1"
    for name in ("shop-orders-of-all-customers", "shop-bills", "shop-mails", "shop-results", "shop-dead-letters")
)
KEYS = OPEN, REFUSED, PARKED, ROW, TIMEOUT = [str(UUID(int=int("9f3a7c5d1e" * 3, 16) + number)) for number in range(5)]
OWNER = "sums-by-customer-0-ip-10-0-132-17-2741"
FILE = f"""\
app: app
kafka: {{bootstrap.servers: "127.0.0.1:1"}}
store: sqlite:///state.db
start_timeout: 300ms
dead_letters: {DEAD}
http: false
agents:
  sums-by-customer:
    from: [{ORDERS}, {BILLS}]
    aggregate: {{count: 3, timeout: {{after: 10m, since: first}}, compute: {{total: {{sum: amount}}}}}}
    to: {{topic: {OUT}}}
  mails:
    from: {MAILS}
    handler: tests.unit.engine.handlers:forward
    concurrency: 2
    retry: {{attempts: 1}}
    then: park
    to: {{topic: {OUT}}}
"""


def made(folder: Path) -> str:
    """The file. Its topics are `LogTopics.log`."""
    (folder / "app.yaml").write_text(FILE)
    log = LogTopics.log = a_log(ORDERS, BILLS, MAILS, OUT, DEAD)
    app = loaded(str(folder / "app.yaml"))
    store = open_store(app.store, app.folder, app="app")
    store.migrate()
    mac_keys.read_or_make(store, "app", lambda: "token")
    handlers.fails[0] = [ValueError()]
    feed(log, (OPEN, 1), (OPEN, 2), topic=ORDERS)
    log.append(ORDERS, 0, REFUSED.encode(), b"{bad")
    feed(log, *((key, 1) for key in (ROW, TIMEOUT) for _ in range(3)), topic=BILLS)
    feed(log, (PARKED, 0), topic=MAILS)
    for number, agent in enumerate(app.agents):
        driver = Driver(agent, store, log, ManualClock(), "finish", member=OWNER if number == 0 else "mails-0")
        driver.producer.fate = lambda row: "rejected" if row.key == ROW.encode() else "delivered"
        driver.input.give(*((topic, 0) for topic in agent.topics))
        driver.turns(8).later(5).turns(8)
    store.timeouts.insert(Timeout(UUID(TIMEOUT), OUT, DUE, KEYS[0].encode(), b"v", owner=OWNER))
    with store.transaction() as session:
        store.outbox.add(session, [OutboxMessage(OUT, KEYS[0].encode(), b"v", [("h", b"x")], id=KEYS[3])])
    for lane in store.outbox.lane_numbers():
        batch = store.outbox.claim(lane, "token", 10)
        if batch is not None and batch.rows:
            store.outbox.mark(batch, [Outcome(KEYS[3], "rejected", "the record is too large for the broker")])
            store.outbox.release(batch)
    return str(folder / "app.yaml")
