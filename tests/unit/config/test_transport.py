"""`allow_plaintext`: who goes to another machine without TLS says so."""

import pytest

from sluicegate.connectors import reach
from sluicegate.streams.errors import ConfigurationError
from tests.unit.config.files import GOOD, lines, loaded

STORES = {
    "redis://cache:6379/0": "rediss:// in place of redis://",
    "redis+sentinel://localhost,cache/main": "rediss:// in place of redis://",
    "postgresql://worker@db/app": "?sslmode=verify-full&sslrootcert=FILE",
    "postgresql://db/app?sslmode=prefer": "?sslmode=verify-full&sslrootcert=FILE",
    "mysql://worker@db/app": "?ssl_ca=FILE",
    "mongodb://a.example,b.example/app": "?tls=true&tlsCAFile=FILE",
    "mongodb+srv://db.example/app?tls=false": "?tls=true&tlsCAFile=FILE",
    "mysql://db/app?ssl_verify_cert=false": "?ssl_ca=FILE",
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
    "mongodb://%2Ftmp%2Fmongodb-27017.sock/app",
    "mongodb://localhost,[::1]:27018/app",
    "postgresql://worker@%2Ftmp/app",
    "postgresql:///app?host=/tmp",
    "postgresql://db/app?host=/tmp",
    "postgresql://db/app?hostaddr=127.0.0.1",
    "postgresql://db/app?sslrootcert=system",
    "mysql:///app?unix_socket=/tmp/mysql.sock",
    "mysql://db/app?unix_socket=/tmp/mysql.sock",
    "redis+cluster://localhost,127.0.0.1:7001",
    "sqlite:///state.db",
    "memory://",
]
KAFKA = 'kafka: {bootstrap.servers: "localhost:9092"}'
END = "or allow_plaintext: true where no other user is on the network"


def with_store(url: str) -> str:
    return GOOD.replace("sqlite:///state.db", url)


@pytest.mark.parametrize("url", STORES)
def test_a_store_on_another_machine_wants_tls_or_a_word(tmp_path, url):
    complaints = lines(loaded(tmp_path, with_store(url)).problems, tmp_path)
    what = "is on another machine and would be reached without TLS"
    assert complaints == [f"f.yaml:3:1: store: {what}; write {STORES[url]}, {END}"]
    assert not loaded(tmp_path, "allow_plaintext: true\n" + with_store(url)).problems


ELSEWHERE = {  # as libpq reads it, and the service file and the environment of the test
    "postgresql://worker@localhost/app?host=db": {},
    "postgresql://worker@localhost/app?hostaddr=10.0.0.1": {},
    "postgresql://worker@localhost/app?host=/tmp,db": {},
    "postgresql:///app?service=far": {},
    "postgresql://localhost/app": {"PGHOSTADDR": "10.0.0.1"},
    "postgresql:///app?service=far&sslmode=prefer": {"PGSSLMODE": "require"},
}


@pytest.mark.parametrize("url", ELSEWHERE)
def test_a_store_is_judged_by_the_hosts_that_its_driver_goes_to(tmp_path, monkeypatch, url):
    (tmp_path / "services").write_text("[far]\nhost=db\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    for name, value in ELSEWHERE[url].items():
        monkeypatch.setenv(name, value)
    what = "leads to another machine by its host, hostaddr or service, or by the environment's PG variables, and would "
    complaints = lines(loaded(tmp_path, with_store(url)).problems, tmp_path)
    how = STORES["postgresql://worker@db/app"]
    assert complaints == [f"f.yaml:3:1: store: {what}be reached without TLS; write {how}, {END}"]
    assert not loaded(tmp_path, "allow_plaintext: true\n" + with_store(url)).problems


def test_tls_of_a_service_file_counts(tmp_path, monkeypatch):
    (tmp_path / "services").write_text("[far]\nhost=db\nsslmode=verify-full\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    assert not loaded(tmp_path, with_store("postgresql:///app?service=far")).problems


def test_a_url_that_leads_nowhere_is_left_to_its_connector(tmp_path):
    assert not loaded(tmp_path, with_store("postgresql:///app?service=none")).problems
    with pytest.raises(ConfigurationError, match='definition of service "none" not found'):
        reach("postgresql:///app?service=none")


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
    file = loaded(tmp_path, with_store("redis://cache:6379/0"), tolerant=True)
    assert (file.app is not None, file.problems) == (True, ())
    assert [p.key for p in file.warnings if "without TLS" in p.message] == ["store"]


def test_what_is_not_known_yet_is_not_judged(tmp_path):
    text = with_store("${STORE}").replace("localhost:9092", "${BROKERS}")
    assert not loaded(tmp_path, text, tolerant=True).problems
