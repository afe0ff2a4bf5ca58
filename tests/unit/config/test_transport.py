"""`allow_plaintext`: who goes to another machine without TLS says so."""

import pytest

from tests.unit.config.files import GOOD, lines, loaded

STORES = {
    "redis://cache:6379/0": "rediss:// in place of redis://",
    "redis+sentinel://localhost,cache/main": "rediss:// in place of redis://",
    "postgresql://worker@db/app": "?sslmode=verify-full&sslrootcert=FILE",
    "postgresql://db/app?sslmode=prefer": "?sslmode=verify-full&sslrootcert=FILE",
    "mysql://worker@db/app": "?ssl_ca=FILE",
    "mongodb://a.example,b.example/app": "?tls=true&tlsCAFile=FILE",
}
SAFE = [
    "redis://localhost:6379/0",
    "redis://127.8.9.1/0",
    "redis://[::1]:6379/0",
    "rediss://cache/0",
    "rediss+cluster://a,b",
    "postgresql://db/app?sslmode=verify-full",
    "mysql://db/app?ssl_ca=ca.pem",
    "mongodb://db/app?tls=true",
    "mongodb+srv://db.example/app",
    "sqlite:///state.db",
    "memory://",
]
KAFKA = 'kafka: {bootstrap.servers: "localhost:9092"}'
END = "or allow_plaintext: true where no other user is on the network"


def with_store(url: str) -> str:
    return GOOD.replace("sqlite:///state.db", url)


@pytest.mark.parametrize("url", STORES)
def test_a_store_on_another_machine_wants_tls_or_a_word(tmp_path, url):
    found = lines(loaded(tmp_path, with_store(url)).problems, tmp_path)
    what = "is on another machine and would be reached without TLS"
    assert found == [f"f.yaml:3:1: store: {what}; write {STORES[url]}, {END}"]
    assert not loaded(tmp_path, "allow_plaintext: true\n" + with_store(url)).problems


@pytest.mark.parametrize("url", SAFE)
def test_what_stays_here_or_has_tls_needs_no_word(tmp_path, url):
    assert not loaded(tmp_path, with_store(url)).problems


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ('bootstrap.servers: "localhost:9092,kafka:9092"', True),
        ('bootstrap.servers: "kafka:9092", security.protocol: sasl_plaintext', True),
        ('bootstrap.servers: "PLAINTEXT://10.0.0.1:9092"', True),
        ('bootstrap.servers: "kafka:9092", security.protocol: SSL', False),
        ('bootstrap.servers: "kafka:9092", security.protocol: sasl_ssl', False),
        ('bootstrap.servers: "[::1]:9092,127.0.0.1:1"', False),
        ("bootstrap.servers: embedded", False),
    ],
)
def test_brokers_on_another_machine_want_tls_or_a_word(tmp_path, settings, refused):
    text = GOOD.replace(KAFKA, f"kafka: {{{settings}}}")
    assert [p.key for p in loaded(tmp_path, text).problems] == (["kafka.bootstrap.servers"] if refused else [])
    assert not loaded(tmp_path, "allow_plaintext: true\n" + text).problems


def test_check_warns_and_run_refuses(tmp_path):
    found = loaded(tmp_path, with_store("redis://cache:6379/0"), tolerant=True)
    assert (found.app is not None, found.problems) == (True, ())
    assert [p.key for p in found.warnings if "without TLS" in p.message] == ["store"]


def test_what_is_not_known_yet_is_not_judged(tmp_path):
    text = with_store("${STORE}").replace("localhost:9092", "${BROKERS}")
    assert not loaded(tmp_path, text, tolerant=True).problems
