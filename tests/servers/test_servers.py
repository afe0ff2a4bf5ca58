"""The servers themselves: crash, pause, sharing, and that nothing survives the run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import redis
from confluent_kafka import Consumer, KafkaException, Producer

from tests.selection import RUN
from tests.servers import Kafka, Valkey, free_port
from tests.servers.program import Place
from tests.servers.shared import PROGRAMS, own_folder
from tests.waiting import wait_until

PROJECT = Path(__file__).resolve().parents[2]


def producer(bootstrap, ns):
    made = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": ns, "log_level": 0, "reconnect.backoff.max.ms": 200}
    )
    made.init_transactions(30)
    return made


def committed_values(bootstrap, topic):
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    try:
        values = []
        while (message := wait_until(lambda: consumer.poll(0.1), 30, "a message")).error() is None:
            values.append(message.value())
        return values
    finally:
        consumer.close()


def pytest_run(folder, body, *options, **environment):
    """A pytest of its own, on a test file of its own, with this project's fixtures."""
    (folder / "test_inner.py").write_text(body)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-c",
        "pyproject.toml",
        "-rs",
    ]
    unset = (
        "CI",
        "PYTEST_XDIST_WORKER",
        "PYTEST_XDIST_WORKER_COUNT",
        "PYTEST_ADDOPTS",
        "SLUICEGATE_TEST_REDIS_URL",
        RUN,
    )
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    return subprocess.Popen(
        [*command, *options, str(folder / "test_inner.py")],
        cwd=PROJECT,
        env=inherited | {"FOLDER": str(folder), "TMPDIR": str(folder)} | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_killed_valkey_comes_back_with_what_it_had_acknowledged(own_server):
    server = own_server(Valkey)
    first = server.pid
    with redis.Redis.from_url(server.url) as client:
        client.set("a", 1)
        server.kill9()
        with pytest.raises(redis.ConnectionError):
            client.ping()
        server.restart()
        assert client.get("a") == b"1"
    assert server.pid != first


def test_a_paused_server_answers_again_after_resume(own_server):
    server = own_server(Valkey)
    with redis.Redis.from_url(server.url, socket_timeout=0.2, retry=None) as client:
        server.pause()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        server.resume()
        assert client.ping()


def test_options_of_an_own_server_win_over_the_defaults(own_server):
    server = own_server(Valkey, args=["--appendfsync", "everysec"])
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        assert client.config_get("append*")["appendfsync"] == "everysec"
        assert client.config_get("append*")["appendonly"] == "yes"


def test_the_shared_redis_syncs_before_every_reply(redis_url):
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        assert client.config_get("append*")["appendfsync"] == "always"


def test_a_killed_broker_comes_back_with_its_transactions_and_fences_the_older_producer(own_server, make_topic, ns):
    server = own_server(Kafka)
    make_topic(ns, bootstrap=server.url)
    older = producer(server.url, ns)
    older.begin_transaction()
    older.produce(ns, b"committed")
    older.commit_transaction(30)
    older.begin_transaction()
    older.produce(ns, b"open")
    older.flush(30)
    server.kill9()
    server.restart()
    newer = producer(server.url, ns)
    with pytest.raises(KafkaException):
        older.commit_transaction(30)
    newer.begin_transaction()
    newer.produce(ns, b"newer")
    newer.commit_transaction(30)
    assert committed_values(server.url, ns) == [b"committed", b"newer"]


def test_topics_have_the_partitions_and_settings_asked_for_and_none_makes_itself(kafka, make_topic, ns):
    from confluent_kafka.admin import AdminClient, ConfigResource

    make_topic(ns, 3, retention_ms=12345)
    admin = AdminClient({"bootstrap.servers": kafka})
    resource = ConfigResource(ConfigResource.Type.TOPIC, ns)
    assert len(admin.list_topics(ns).topics[ns].partitions) == 3
    assert admin.describe_configs([resource])[resource].result(10)["retention.ms"].value == "12345"
    broker = ConfigResource(ConfigResource.Type.BROKER, "1")
    assert admin.describe_configs([broker])[broker].result(10)["auto.create.topics.enable"].value == "false"


def test_a_broker_behind_a_proxy_is_reached_only_through_it(own_server, proxy, make_topic, ns):
    port = free_port()
    between = proxy(own_server(Kafka, advertised=port).url, listen_port=port)
    make_topic(ns, bootstrap=f"127.0.0.1:{port}")
    sender = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "enable.idempotence": True, "log_level": 0})
    sender.produce(ns, b"first")
    assert sender.flush(30) == 0
    between.hold("to-client")
    sender.produce(ns, b"second")
    between.wait_held()
    assert sender.flush(0.2) == 1
    between.release()
    assert sender.flush(30) == 0
    assert committed_values(f"127.0.0.1:{port}", ns) == [b"first", b"second"]


def test_workers_of_one_run_share_a_server_and_get_names_of_their_own(tmp_path):
    body = """
import os, pytest, redis
@pytest.mark.parametrize("n", range(2))
def test_it(redis_url, ns, n):
    with redis.Redis.from_url(redis_url) as client:
        name = f"seen-{os.environ['PYTEST_XDIST_WORKER']}-{n}"
        open(os.path.join(os.environ["FOLDER"], name), "w").write(client.info()["run_id"] + " " + ns)
"""
    inner = pytest_run(tmp_path, body, "-n", "2", "--dist", "each")
    output, _ = inner.communicate(timeout=90)
    assert inner.returncode == 0, output
    seen = [file.read_text().split() for file in tmp_path.glob("seen-*")]
    assert len(seen) == 4
    assert len({server for server, _ in seen}) == 1
    assert len({name for _, name in seen}) == 4


def test_nothing_survives_a_killed_pytest(tmp_path):
    body = """
import os, threading, redis
from tests.servers import Valkey
def test_it(redis_url, own_server):
    urls = [redis_url, own_server(Valkey).url]
    pids = [redis.Redis.from_url(url).info()["process_id"] for url in urls]
    path = os.path.join(os.environ["FOLDER"], "pids")
    open(path + ".new", "w").write(" ".join(map(str, pids)))
    os.rename(path + ".new", path)
    threading.Event().wait(60)
"""
    inner = pytest_run(tmp_path, body)
    wait_until((tmp_path / "pids").exists, 60, "the servers of the inner run")
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    pids += [child.pid for child in psutil.Process(inner.pid).children(recursive=True)]
    assert len(pids) >= 3
    assert all(psutil.pid_exists(pid) for pid in pids)
    os.kill(inner.pid, signal.SIGKILL)
    inner.communicate(timeout=30)
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids), 15, "the end of every process")
    wait_until(lambda: not list(tmp_path.glob("sluicegate-*")), 15, "the removal of every folder")


@pytest.mark.parametrize(("environment", "closing"), [({}, "1 skipped"), ({"CI": "true"}, "1 error")])
def test_a_missing_server_skips_on_a_laptop_and_fails_in_ci(tmp_path, environment, closing):
    inner = pytest_run(tmp_path, "def test_it(kafka): raise AssertionError", PATH=str(tmp_path), **environment)
    output, _ = inner.communicate(timeout=90)
    assert closing in output
    assert "make setup" in output
    assert "SLUICEGATE_TEST_KAFKA_BOOTSTRAP_SERVERS" in output


def test_a_variable_wins_over_every_other_way(tmp_path):
    body = "def test_it(redis_url): assert redis_url == 'redis://example:1/0'"
    inner = pytest_run(tmp_path, body, SLUICEGATE_TEST_REDIS_URL="redis://example:1/0")
    output, _ = inner.communicate(timeout=90)
    assert inner.returncode == 0, output


def test_a_docker_engine_that_does_not_answer_is_passed_over(tmp_path):
    body = "import redis\ndef test_it(redis_url): assert redis.Redis.from_url(redis_url).ping()"
    inner = pytest_run(tmp_path, body, DOCKER_HOST=f"tcp://127.0.0.1:{free_port()}")
    output, _ = inner.communicate(timeout=90)
    assert inner.returncode == 0, output


def test_a_failure_shows_and_keeps_the_logs(tmp_path):
    from tests.conftest import LOGS

    body = (
        "from tests.servers import Valkey\ndef test_it_fails_on_purpose(redis_url, own_server):\n "
        "own_server(Valkey)\n assert False"
    )
    before = set(LOGS.glob("valkey-*.log"))
    inner = pytest_run(tmp_path, body)
    output, _ = inner.communicate(timeout=90)
    assert "end of the log of redis_url" in output
    kept = [*(set(LOGS.glob("valkey-*.log")) - before), LOGS / "test_it_fails_on_purpose-0-valkey.log"]
    try:
        assert len(kept) == 2
        assert all("Ready to accept connections" in log.read_text() for log in kept)
    finally:
        for log in kept:
            log.unlink(missing_ok=True)


def test_make_servers_prints_each_url_and_ends_cleanly_on_sigterm():
    folder = own_folder()  # one that the user of PostgreSQL may pass through, unlike tmp_path
    command = [sys.executable, "-m", "tests.servers"]
    with subprocess.Popen(
        command,
        cwd=PROJECT,
        env=os.environ | {"TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        lines = dict(run.stdout.readline().strip().split("=", 1) for _ in PROGRAMS)
        assert lines.keys() >= {"KAFKA_BOOTSTRAP_SERVERS", "REDIS_URL", "POSTGRES_URL", "MARIADB_URL"}
        Kafka().probe(lines["KAFKA_BOOTSTRAP_SERVERS"])
        Valkey().probe(lines["REDIS_URL"])
        children = psutil.Process(run.pid).children(recursive=True)
        run.terminate()
        assert run.wait(30) == 0
    assert not any(child.is_running() for child in children)
    assert list(folder.glob("sluicegate-*")) == []


def test_a_container_is_told_the_same_settings_as_a_process(tmp_path):
    image = Kafka(config={"log.segment.bytes": "1048576"}).image(Place(tmp_path, 20001, 20002))
    assert image.environment["KAFKA_ADVERTISED_LISTENERS"] == "B://127.0.0.1:20001"
    assert image.environment["KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS"] == "1000"
    assert image.environment["KAFKA_LOG_SEGMENT_BYTES"] == "1048576"
    assert "everysec" in Valkey(args=["--appendfsync", "everysec"]).image(Place(tmp_path, 20001, 20002)).command
