"""Guards before Kafka: what came damaged, and `delivery: transactional`: what makes rows and their cursor one, and what
ends a producer that must not go on."""

from tests.mutation.guard import NEVER, Guard

FILE = "connectors/kafka/transactions.py"
REAL = ("tests/integration/test_kafka_transactions.py",)
ALONE = ("tests/unit/kafka/test_transactions.py",)

NEXT = "tests/integration/test_next_process.py"

SETTINGS = "streams/config/sections/kafka.py"
ALIKE = ("tests/unit/config/test_kafka_settings.py",)

GUARDS = (
    Guard(
        "the next process of a worker has its partitions at once",
        "connectors/kafka/settings.py",
        "        names[INSTANCE] = instance\n",
        "        pass\n",
        (f"{NEXT}::test_the_next_process_of_a_worker_does_not_wait_for_the_session_of_the_dead_one",),
    ),
    Guard(
        "the processes of a worker are one member of its group",
        "streams/processes/child.py",
        "job.on_rule_change, job.drain, job.run, job.probes_first)",
        'job.on_rule_change, job.drain, "", job.probes_first)',
        (f"{NEXT}::test_the_next_process_of_a_worker_does_not_wait_for_the_session_of_the_dead_one",),
    ),
    Guard(
        "a run that is started again under its name has its partitions at once",
        "streams/processes/child.py",
        "os.environ.get(INSTANCE) or uuid.uuid4().hex",
        "uuid.uuid4().hex",
        (f"{NEXT}::test_the_next_process_of_a_worker_does_not_wait_for_the_session_of_the_dead_one",),
    ),
    Guard(
        "brokers that do not answer hold up no stop",
        "connectors/kafka/consumer.py",
        "        closing.join(max(0.0, deadline - time.monotonic()))\n",
        "        closing.join()\n",
        ("tests/integration/test_silent_stop.py",),
    ),
    Guard(
        "a static member that ends leaves its group",
        "connectors/kafka/consumer.py",
        "        if settings.INSTANCE in self._wanted:\n",
        "        if settings.INSTANCE in ():\n",
        ("tests/integration/test_kafka_rebalances.py::test_a_member_that_closes_leaves_its_partitions_at_once",),
    ),
    Guard(
        "a process is another member when partitions were added",
        "connectors/kafka/consumer.py",
        '[f"{name} {topic.partitions}" for',
        "[name for",
        (f"{NEXT}::test_a_process_is_another_member_when_partitions_were_added",),
    ),
    Guard(
        "a process is another member when it reads other topics",
        "connectors/kafka/consumer.py",
        '[f"{name} {topic.partitions}" for',
        "[str(topic.partitions) for",
        (f"{NEXT}::test_a_process_that_reads_another_topic_gets_its_partitions_and_none_of_the_old_one",),
    ),
    Guard(
        "a member of a group by the brokers' protocol is dynamic",
        "connectors/kafka/settings.py",
        "    if instance and not by_the_broker(kafka):",
        "    if instance:",
        (f"{NEXT}::test_a_group_by_the_protocol_of_the_brokers_has_no_static_members",),
    ),
    Guard(
        "settings that contradict each other are refused by check",
        SETTINGS,
        "        if most is not None and least is not None and most < least + more:",
        f"        {NEVER}",
        ALIKE,
    ),
    Guard("a response holds a fetch and its frame", SETTINGS, "    if _RESPONSE in settings:", f"    {NEVER}", ALIKE),
    Guard(
        "a fetch that is not written follows the messages",
        SETTINGS,
        "_FETCH_DEFAULT, queue * 1024), message)",
        "_FETCH_DEFAULT, queue * 1024), 0)",
        ALIKE,
    ),
    Guard(
        "a fetch that is not written follows the queue",
        SETTINGS,
        "max(min(_FETCH_DEFAULT, queue * 1024), message)",
        "max(_FETCH_DEFAULT, message)",
        ALIKE,
    ),
    Guard(
        "a reader of cursors takes any largest response",
        "connectors/kafka/settings.py",
        ' if name != "receive.message.max.bytes"}',
        "}",
        ALIKE,
    ),
    Guard(
        "a socket's timeout and linger are shorter than a transaction",
        "connectors/kafka/settings.py",
        "min(users[name], milliseconds - 1)",
        "users[name]",
        ALIKE,
    ),
    Guard(
        "what came damaged is read again",
        "connectors/kafka/consumer.py",
        'self._failures.append(((topic, -1 if number is None else number), "unread", problems.error_text(error)))',
        "self._complaints.say(error, problems.error_text(error))",
        ("tests/unit/kafka/test_problems.py", "tests/integration/test_spoiled_fetch.py"),
    ),
    Guard(
        "an old token serves until it ends",
        "connectors/kafka/logins.py",
        "            if self.validity < SPARE:\n                raise",
        "            raise",
        ("tests/integration/test_logins.py::test_an_old_token_serves_while_no_new_one_can_be_had",),
    ),
    Guard(
        "settings of tokens that no client uses are refused",
        "streams/config/sections/kafka.py",
        "        yield from _token_findings(path, settings)\n",
        "        pass\n",
        ("tests/unit/config/test_kafka_settings.py::test_settings_of_tokens_without_a_source_of_tokens_are_refused",),
    ),
    Guard(
        "a cloud without credentials says so before a client is made",
        "connectors/kafka/logins.py",
        """            self._token, self._ends = tokens()
        except Exception as error:
            raise SystemNotReady""",
        """            self._token, self._ends = "", 0.0
        except Exception as error:
            raise SystemNotReady""",
        ("tests/integration/test_logins.py::test_a_cloud_without_credentials_says_so_before_a_client_is_made",),
    ),
    Guard(
        "an issuer that does not answer is no refusal",
        "connectors/kafka/problems.py",
        "    if no_token(error) is not None:\n        return None\n",
        "",
        ("tests/integration/test_logins.py::test_an_issuer_that_is_not_there_is_waited_for",),
    ),
    Guard(
        "what brokers lack and an app asks for is an error",
        "streams/cli/checking/brokers.py",
        "not (need.always or need.setting)",
        "True",
        ("tests/integration/test_brokers.py::test_what_an_app_asks_for_and_brokers_lack_is_an_error",),
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
        "        self.close()\n        text = problems.error_text(",
        "        text = problems.error_text(",
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
