"""librdkafka's settings pass through when it knows them and they are not ours."""

import confluent_kafka
import confluent_kafka.admin
import pytest

from sluicegate.connectors.kafka import settings as clients
from sluicegate.streams.config.sections import kafka
from tests.unit.config.files import GOOD, lines, loaded


def with_settings(text):
    return GOOD.replace('{bootstrap.servers: "localhost:9092"}', text)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("{}", "bootstrap.servers: is missing; write host:9092, or embedded for the embedded broker"),
        (
            "{bootstrap.servers: 'a:1,http://b:2'}",
            "bootstrap.servers: is not a list of broker addresses; write host:port, several with commas between them, "
            "such as broker1:9092,broker2:9092",
        ),
        (
            "{bootstrap.servers: localhost, sesion.timeout.ms: 1}",
            "sesion.timeout.ms: is not a setting of librdkafka that a file can hold; did you mean session.timeout.ms?",
        ),
        (
            "{bootstrap.servers: localhost, error_cb: x}",
            "error_cb: is not a setting of librdkafka that a file can hold; `sluicegate schema` lists the known ones",
        ),
        (
            "{bootstrap.servers: localhost, group.id: x}",
            "group.id: cannot be set: is always APP.AGENT; leave it out: Sluicegate sets it",
        ),
        (
            "{bootstrap.servers: localhost, enable.auto.commit: true}",
            "enable.auto.commit: cannot be set: offsets are committed with the state, in the store; leave it out: "
            "Sluicegate sets it",
        ),
        (
            "{metadata.broker.list: a}",
            "metadata.broker.list: is another name of bootstrap.servers; write bootstrap.servers",
        ),
        (
            "{bootstrap.servers: localhost, socket.timeout.ms: 5}",
            "socket.timeout.ms: must be a whole number; write a number from 10 to 300000, without a unit",
        ),
        (
            "{bootstrap.servers: localhost, socket.timeout.ms: 5s}",
            "socket.timeout.ms: must be a whole number; write a number from 10 to 300000, without a unit",
        ),
        (
            "{bootstrap.servers: localhost, linger.ms: -1}",
            "linger.ms: must be a number; write a number from 0 to 900000, without a unit",
        ),
        (
            "{bootstrap.servers: localhost, socket.keepalive.enable: yes}",
            "socket.keepalive.enable: must be true or false; write true or false",
        ),
        (
            "{bootstrap.servers: localhost, security.protocol: tls}",
            "security.protocol: is not one of the allowed words; write one of plaintext, ssl, sasl_plaintext, sasl_ssl",
        ),
        (
            "{bootstrap.servers: [a]}",
            "bootstrap.servers: must be text; write host:port, several with commas between them, such as "
            "broker1:9092,broker2:9092",
        ),
        (
            "{bootstrap.servers: }",
            "bootstrap.servers: must be text; write host:port, several with commas between them, such as "
            "broker1:9092,broker2:9092",
        ),
        (
            "{bootstrap.servers: localhost, max.in.flight: 6}",
            "max.in.flight: must be 1 to 5; an idempotent producer allows no more",
        ),
        (
            "{bootstrap.servers: localhost, partition.assignment.strategy: sticky}",
            "partition.assignment.strategy: is not an assignment strategy; write cooperative-sticky (the default), or "
            "range or roundrobin for eager rebalances",
        ),
        (
            "{bootstrap.servers: localhost, group.protocol: Consumer, session.timeout.ms: 6000}",
            "session.timeout.ms: cannot be set with group.protocol: consumer; leave it out: the broker decides it, "
            "with group.consumer.* settings",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_the_reason(tmp_path, settings, expected):
    complaints = lines(loaded(tmp_path, with_settings(settings)).problems, tmp_path)
    assert [line.partition(" kafka.")[2] for line in complaints] == [expected]


@pytest.mark.parametrize(
    "name",
    [
        "group.id",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.offset.reset",
        "isolation.level",
        "check.crcs",
        "fetch.queue.backoff.ms",
        "enable.idempotence",
        "acks",
        "message.timeout.ms",
        "transactional.id",
        "plugin.library.paths",
    ],
)
def test_what_the_product_sets_itself_is_refused(tmp_path, name):
    file = loaded(tmp_path, with_settings(f"{{bootstrap.servers: localhost, {name}: 1}}"))
    assert [p.key for p in file.problems] == [f"kafka.{name}"]
    assert "cannot be set" in file.problems[0].message


def test_known_settings_pass_with_the_types_that_the_client_takes(tmp_path):
    text = (
        "{bootstrap.servers: 'a:1,b:2', security.protocol: SASL_SSL, sasl.mechanism: PLAIN, linger.ms: 2.5, "
        "socket.timeout.ms: 6000, "
        "socket.keepalive.enable: true, session.timeout.ms: '9000', client.rack: 7, debug: 'broker,topic'}"
    )
    assert loaded(tmp_path, with_settings(text)).app.kafka == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "PLAIN",
        "linger.ms": 2.5,
        "socket.timeout.ms": 6000,
        "socket.keepalive.enable": True,
        "session.timeout.ms": 9000,
        "client.rack": "7",
        "debug": "broker,topic",
    }


OAUTH = "sasl.oauthbearer."
OIDC = f"login: oidc, {OAUTH}token.endpoint.url: 'https://issuer.example/token'"
CLIENT = f"{OAUTH}client.id: a, {OAUTH}client.secret: b"


@pytest.mark.parametrize(
    ("settings", "problems"),
    [
        (f"{OIDC}, {CLIENT}", []),
        (f"{OIDC}, {CLIENT}, security.protocol: sasl_plaintext, sasl.mechanism: OAUTHBEARER", []),
        (f"{OIDC}, {OAUTH}assertion.file: a.jwt", []),
        (f"login: oidc, {OAUTH}metadata.authentication.type: azure_imds, {OAUTH}config: query=x", []),
        ("login: MSK-IAM", []),
        ("login: azure", []),
        ("login: gcp", []),
        ("login: kerberos", ["login: is not one of the allowed words; write one of oidc, msk-iam, azure, gcp"]),
        (
            f"login: oidc, {CLIENT}",
            [f"login: oidc needs {OAUTH}token.endpoint.url; write the URL at which the issuer gives tokens"],
        ),
        (
            OIDC,
            [
                f"login: oidc needs {OAUTH}client.secret, or an assertion; write {OAUTH}client.id and "
                f"{OAUTH}client.secret"
            ],
        ),
        (
            f"{OIDC}, {OAUTH}client.secret: b",
            [f"login: oidc needs {OAUTH}client.id; write the name under which the issuer knows this app"],
        ),
        (
            "login: gcp, sasl.password: x",
            ["sasl.password: cannot be set with login: gcp, which decides it; leave it out, or leave out login"],
        ),
        (
            f"login: gcp, {OAUTH}method: oidc",
            [f"{OAUTH}method: cannot be set with login: gcp, which decides it; leave it out, or leave out login"],
        ),
        (
            "login: gcp, sasl.mechanisms: PLAIN",
            [
                "sasl.mechanisms: contradicts login: gcp, which uses SASL/OAUTHBEARER; leave it out, or write "
                "oauthbearer"
            ],
        ),
        (
            "login: gcp, security.protocol: ssl",
            ["security.protocol: contradicts login: gcp, which uses SASL/OAUTHBEARER; leave it out, or write sasl_ssl"],
        ),
    ],
)
def test_a_login_says_what_it_needs_and_what_contradicts_it(tmp_path, settings, problems):
    answer = loaded(tmp_path, with_settings(f"{{bootstrap.servers: 'kafka.example:9093', {settings}}}"))
    allowed = "security.protocol: s" in settings or f"{OAUTH}metadata" in settings
    messages = [line.partition(" kafka.")[2] for line in lines(answer.problems, tmp_path)]
    assert [line for line in messages if "without TLS" not in line or not allowed] == problems


METADATA = f"{OAUTH}metadata.authentication.type"
TOKENS = "sasl.mechanism: OAUTHBEARER"


@pytest.mark.parametrize(
    ("settings", "problems"),
    [
        (
            f"{TOKENS}, {METADATA}: aws_iam, {OAUTH}config: 'region=eu-west-1,audience=x'",
            [f"{METADATA}: has no effect without login: oidc; write login: oidc"],
        ),
        (
            f"login: oidc, {METADATA}: aws_iam",
            [f"login: aws_iam needs {OAUTH}config; write region=REGION,audience=AUDIENCE"],
        ),
        (
            f"{TOKENS}, {OAUTH}method: oidc, {METADATA}: aws_iam",
            [f"{OAUTH}method: aws_iam needs {OAUTH}config; write region=REGION,audience=AUDIENCE"],
        ),
        (f"{TOKENS}, {OAUTH}method: OIDC, {METADATA}: aws_iam, {OAUTH}config: 'region=eu-west-1,audience=x'", []),
        (
            f"{TOKENS}, {CLIENT}",
            [
                f"{OAUTH}client.{name}: has no effect without login: oidc; write login: oidc"
                for name in ("id", "secret")
            ],
        ),
        (TOKENS, ["sasl.mechanism: OAUTHBEARER has no tokens without login; write login: oidc, msk-iam, azure or gcp"]),
        (f"{TOKENS}, enable.sasl.oauthbearer.unsecure.jwt: true, {OAUTH}config: principal=shop", []),
        (f"sasl.mechanism: PLAIN, {OAUTH}method: default", []),
    ],
)
def test_settings_of_tokens_without_a_source_of_tokens_are_refused(tmp_path, settings, problems):
    """librdkafka takes most of them. The client would then wait for a token without end."""
    text = with_settings(f"{{bootstrap.servers: 'kafka.example:9093', security.protocol: sasl_ssl, {settings}}}")
    messages = [line.partition(" kafka.")[2] for line in lines(loaded(tmp_path, text).problems, tmp_path)]
    assert messages == problems


def test_a_login_uses_tls_and_its_issuer_must(tmp_path):
    login = f"login: oidc, {CLIENT}, {OAUTH}token.endpoint.url: 'http://issuer.example/token'"
    text = with_settings(f"{{bootstrap.servers: 'kafka.example:9093', {login}}}")
    assert [line.partition(" kafka.")[2] for line in lines(loaded(tmp_path, text).problems, tmp_path)] == [
        f"{OAUTH}token.endpoint.url: is on another machine and would be reached without TLS; write https:// in place "
        "of http://, or allow_plaintext: true where no other user is on the network"
    ]


def test_the_embedded_broker_has_no_login(tmp_path):
    file = loaded(tmp_path, with_settings("{bootstrap.servers: embedded, login: gcp}"))
    assert "cannot be used with the embedded broker" in lines(file.problems, tmp_path)[0]


def test_each_login_of_the_file_is_one_of_the_connector():
    from sluicegate.connectors.kafka.logins import LOGINS

    assert set(kafka.LOGINS) == set(LOGINS)


def test_embedded_is_a_broker(tmp_path):
    assert loaded(tmp_path, with_settings("{bootstrap.servers: embedded}")).app.kafka == {
        "bootstrap.servers": "embedded"
    }


def unknown_to_librdkafka(name, value):
    try:
        confluent_kafka.Consumer({"group.id": "g", "log_level": 0, name: value}).close()
    except confluent_kafka.KafkaException as error:
        return (
            error.args[0].code() == confluent_kafka.KafkaError._INVALID_ARG
            and "No such configuration" in error.args[0].str()
        )
    return False


def test_the_list_knows_what_librdkafka_knows():
    """A newer librdkafka may know more; it must not have forgotten any that a file may set."""
    assert unknown_to_librdkafka("no.such.setting", "1")
    samples = {"boolean": True, "text": "x", "choice": None, "integer": None, "number": None}
    for name in kafka.allowed():
        kind, *rest = kafka.known_settings()[name]
        if name not in ("sasl.mechanism", "sasl.mechanisms", "debug", kafka.LOGIN):
            assert not unknown_to_librdkafka(name, samples[kind] if samples[kind] is not None else rest[0]), name
    assert set(kafka.REFUSED) <= set(kafka.known_settings())


def test_no_setting_that_the_connector_wins_over_may_be_written_in_the_file():
    from sluicegate.connectors.kafka import settings

    ours = {**settings.CONSUMER, **settings.PRODUCER}
    assert set(ours) <= set(kafka.REFUSED)
    assert set(kafka.known_settings()) >= settings.CONSUMER_ONLY | settings.PRODUCER_ONLY


CLIENTS = {
    "consumer": lambda user: confluent_kafka.Consumer(clients.consumer(user, "g", "m", print)).close(),
    "producer": lambda user: confluent_kafka.Producer(clients.producer(user, print)),
    "transactional": lambda user: confluent_kafka.Producer(clients.transactional(user, "t")),
    "offsets": lambda user: confluent_kafka.Consumer(clients.offsets(user, "g")).close(),
    "admin": lambda user: confluent_kafka.admin.AdminClient(clients.admin(user)),
}


def refusals(client, values):
    """The setting that librdkafka names when it refuses these for one of our clients, or nothing."""
    user = {name: kafka.converted(name, value) for name, value in values.items()}
    try:
        CLIENTS[client]({"bootstrap.servers": "", "max.poll.interval.ms": 3_600_000, **user})
    except confluent_kafka.KafkaException as error:
        return [next(name for name in values if name in str(error))]
    return []


CONTRADICT = "contradict each other: {} must be at least {}{}, which is {}; raise {}, or lower {}"


def contradiction(larger: str, smaller: str, number: int, more: str = "") -> str:
    return CONTRADICT.format(larger, smaller, more, number, larger, smaller)


@pytest.mark.parametrize(
    ("settings", "problems"),
    [
        ("session.timeout.ms: 300000", []),
        (
            "session.timeout.ms: 300001",
            [f"session.timeout.ms: {contradiction('max.poll.interval.ms', 'session.timeout.ms', 300_001)}"],
        ),
        (
            "max.poll.interval.ms: 9999",
            [f"max.poll.interval.ms: {contradiction('max.poll.interval.ms', 'session.timeout.ms', 10_000)}"],
        ),
        (
            "session.timeout.ms: 10, heartbeat.interval.ms: 11",
            [f"session.timeout.ms: {contradiction('session.timeout.ms', 'heartbeat.interval.ms', 11)}"],
        ),
        (
            "reconnect.backoff.ms: 10001",
            [f"reconnect.backoff.ms: {contradiction('reconnect.backoff.max.ms', 'reconnect.backoff.ms', 10_001)}"],
        ),
        (
            "fetch.max.bytes: 999999",
            [f"fetch.max.bytes: {contradiction('fetch.max.bytes', 'message.max.bytes', 1_000_000)}"],
        ),
        ("fetch.max.bytes: 999999, message.max.bytes: 1000", []),
        ("message.max.bytes: 90000000", []),
        (
            "receive.message.max.bytes: 16777727",
            [
                f"receive.message.max.bytes: "
                f"{contradiction('receive.message.max.bytes', 'fetch.max.bytes', 16_777_728, ' + 512')}"
            ],
        ),
        ("receive.message.max.bytes: 100000, queued.max.messages.kbytes: '${UNSET}'", []),
        ("session.timeout.ms: '${UNSET}', max.poll.interval.ms: 9999", []),
    ],
)
def test_settings_that_contradict_each_other_are_refused(tmp_path, settings, problems):
    complaints = lines(
        loaded(tmp_path, with_settings(f"{{bootstrap.servers: localhost, {settings}}}")).problems, tmp_path
    )
    assert [line.partition(" kafka.")[2] for line in complaints if "UNSET" not in line] == problems


@pytest.mark.parametrize(("larger", "default", "smaller", "other"), kafka._ORDERED, ids=str)
@pytest.mark.parametrize("more", [-1, 0])
def test_librdkafka_refuses_the_same_settings(larger, default, smaller, other, more):
    """But for heartbeats, which only the group needs."""
    values = {larger: str(100_000 + more), smaller: "100000"}
    refused = [problem.path for problem in kafka.findings({"bootstrap.servers": "localhost", **values})]
    assert refused == [("kafka", larger)] * (more < 0)
    assert refusals("consumer", values) == [larger] * (more < 0 and smaller != "heartbeat.interval.ms")


@pytest.mark.parametrize(
    ("larger", "least", "others"),
    [
        ("fetch.max.bytes", 1_000_000, {}),
        ("fetch.max.bytes", 2_000, {"message.max.bytes": "2000"}),
        ("receive.message.max.bytes", 16_777_216 + 512, {}),
        ("receive.message.max.bytes", 52_428_800 + 512, {"queued.max.messages.kbytes": "90000"}),
        ("receive.message.max.bytes", 1_000_000 + 512, {"queued.max.messages.kbytes": "1"}),
        ("receive.message.max.bytes", 90_000_000 + 512, {"message.max.bytes": "90000000"}),
        ("receive.message.max.bytes", 20_000_000 + 512, {"fetch.max.bytes": "20000000"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("more", [-1, 0])
def test_librdkafka_refuses_the_same_sizes_of_messages(larger, least, others, more):
    values = {larger: str(least + more), **others}
    refused = [problem.path for problem in kafka.findings({"bootstrap.servers": "localhost", **values})]
    assert refused == [("kafka", larger)] * (more < 0)
    assert [name for client in CLIENTS for name in refusals(client, values)] == [larger] * (more < 0)


NUMBERS = sorted(name for name in kafka.allowed() if kafka.known_settings()[name][0] in ("integer", "number"))


@pytest.mark.parametrize("client", ["consumer", "producer", "transactional", "offsets", "admin"])
def test_every_client_takes_the_limits_of_every_number_that_check_accepts(client):
    trials = [{name: str(limit)} for name in NUMBERS for limit in kafka.known_settings()[name][1:]]
    accepted = [trial for trial in trials if not list(kafka.findings({"bootstrap.servers": "localhost", **trial}))]
    assert len(accepted) > len(NUMBERS)
    assert {str(trial): refusals(client, trial) for trial in accepted} == {str(trial): [] for trial in accepted}


@pytest.mark.parametrize(
    ("settings", "warned_keys"),
    [
        ("session.timeout.ms: 6000", []),
        ("session.timeout.ms: 10", ["kafka.session.timeout.ms"]),
        ("session.timeout.ms: 1800001, max.poll.interval.ms: 1800001", ["kafka.session.timeout.ms"]),
        ("heartbeat.interval.ms: 3333", []),
        ("heartbeat.interval.ms: 3334", ["kafka.heartbeat.interval.ms"]),
        ("group.protocol: consumer", []),
    ],
)
def test_times_of_a_session_that_do_not_work_with_most_brokers_are_warned_of(tmp_path, settings, warned_keys):
    file = loaded(tmp_path, with_settings(f"{{bootstrap.servers: localhost, {settings}}}"))
    assert (file.problems, [warning.key for warning in file.warnings]) == ((), warned_keys)


def test_the_embedded_broker_takes_a_session_of_any_length(tmp_path):
    file = loaded(tmp_path, with_settings("{bootstrap.servers: embedded, session.timeout.ms: 10}"))
    assert [warning.key for warning in file.warnings] == ["kafka.bootstrap.servers"]
