"""Guards before Kafka: what came damaged, and `delivery: transactional`: what makes rows and their cursor one, and what
ends a producer that must not go on."""

from tests.mutation.guard import NEVER, Guard

FILE = "connectors/kafka/transactions.py"
REAL = ("tests/integration/test_kafka_transactions.py",)
ALONE = ("tests/unit/kafka/test_transactions.py",)

GUARDS = (
    Guard(
        "what came damaged is read again",
        "connectors/kafka/consumer.py",
        'self._failures.append(((topic, -1 if number is None else number), "unread", problems.said(error)))',
        "self._complaints.say(error, problems.said(error))",
        ("tests/unit/kafka/test_problems.py", "tests/integration/test_spoiled_fetch.py"),
    ),
    Guard("the cursor goes into the transaction of its rows", FILE, "        self._add(cursor)\n", "", REAL),
    Guard(
        "a new producer goes on from the cursor", FILE, "return self._cursors.read(self._partition)", "return {}", REAL
    ),
    Guard(
        "a shard's producers have one identity: the next one fences",
        FILE,
        'self._identity = "/".join(map(str, partition))',
        'self._identity = "/".join(map(str, partition)) + f"/{id(self)}"',
        (f"{REAL[0]}::test_a_producer_is_fenced_by_the_next_one_in_the_middle_of_its_transaction",),
    ),
    Guard(
        "a fenced producer says so",
        FILE,
        "        if inner.code() in problems.FENCED:",
        f"        {NEVER}",
        (f"{REAL[0]}::test_a_producer_is_fenced_by_the_next_one_in_the_middle_of_its_transaction",),
    ),
    Guard(
        "after any doubt the producer is given up",
        FILE,
        "        self.close()\n        text = problems.said(",
        "        text = problems.said(",
        (f"{REAL[0]}::test_a_producer_is_fenced_by_the_next_one_in_the_middle_of_its_transaction",),
    ),
    Guard(
        "a row that the broker never takes aborts its transaction",
        FILE,
        "                self._producer.abort_transaction(OPENING)\n",
        "",
        (f"{REAL[0]}::test_what_the_broker_never_takes_is_said_and_the_producer_goes_on",),
    ),
    Guard(
        "a cursor's call that never returns is given up",
        FILE,
        "        if not self._aside.run(lambda: add(places, group, OPENING), OPENING + LATE):",
        "        if add(places, group, OPENING):",
        ALONE,
    ),
    Guard(
        "a cursor's call waits no longer than an opening",
        FILE,
        "add(places, group, OPENING), OPENING + LATE)",
        "add(places, group, SENDING), SENDING + LATE)",
        ALONE,
    ),
    Guard(
        "a producer that lost a broker since its cursor is opened again",
        FILE,
        "        if self._lost:",
        f"        {NEVER}",
        ALONE,
    ),
    Guard(
        "a broker lost before any cursor is no reason to open again",
        FILE,
        "        if self._added and error.code() in problems.GONE:",
        "        if error.code() in problems.GONE:",
        ALONE,
    ),
)
