"""A secret in a file never comes out of it."""

import pytest

from sluicegate.streams.agent import App, Http
from sluicegate.streams.config import redacted
from tests.unit.config.files import GOOD, loaded

CANARY = "c4n4ry-7Hq"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        (f"redis://:{CANARY}@host:6379/0", "redis://***@host:6379/0"),
        (f"rediss://user:{CANARY}@host/0", "rediss://***@host/0"),
        (f"redis://u:{CANARY}?/@{CANARY}@host/0", "redis://***@host/0"),
        (f"redis://host/0?password={CANARY}", "redis://host/0?***"),
        ("sqlite:///state.db", "sqlite:///state.db"),
        (CANARY, "***"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url, shown):
    assert redacted(url) == shown


PLACES = [
    f"schema_registry: {{url: 'http://user:{CANARY}@localhost'}}",
    f"schema_registry: {{url: {CANARY}, auth: {{username: me, password: [{CANARY}]}}}}",
    f"schema_registry: {{url: 'http://localhost', auth: {CANARY}}}",
    f"schema_registry: {CANARY}",
    f"store: redis://:{CANARY}@host/0",
    f"store: oracle://:{CANARY}@host/0",
    f"store: [{CANARY}]",
    f"app: {CANARY} {CANARY}",
    f"http: {{token: {CANARY}, port: x}}",
    f"http: {{token: [{CANARY}]}}",
    f"http: {CANARY}",
    f"kafka: {{bootstrap.servers: localhost, sasl.password: {CANARY}, ssl.key.password: {CANARY}}}",
    f"kafka: {{bootstrap.servers: localhost, sasl.password: [{CANARY}]}}",
    f"kafka: {{bootstrap.servers: localhost, socket.timeout.ms: {CANARY}, security.protocol: {CANARY}}}",
    f"kafka: {CANARY}",
    f"agents: {CANARY}",
    f"start_timeout: {CANARY}",
    f"accept_level: {CANARY}",
    f"auto_migrate: {CANARY}",
    "store: ${SECRET}",
    "app: ${SECRET} x",
    "agents: ${SECRET}",
    "http: {port: '${SECRET}', host: '${SECRET}'}",
    f"dead_letters: '${{{CANARY}.x}}'",
    "agents: "
    f"{{a: {{from: '{CANARY} x', format: {CANARY} x, key: {CANARY}..x, start: {CANARY}, aggregate: {CANARY}, to: \
{CANARY}}}}}",
    "agents: "
    f"{{a: {{from: x, aggregate: {{count: {CANARY}, timeout: {CANARY}, compute: {{a: {CANARY}}}}}, to: {{topic: \
'{CANARY} x'}}}}}}",
]


@pytest.mark.parametrize("place", PLACES)
def test_no_problem_and_no_representation_holds_a_value_of_the_file(tmp_path, place):
    key = place.partition(":")[0]
    lines = GOOD.split("agents:")[0].splitlines(True) if key == "agents" else GOOD.splitlines(True)
    text = "".join(line for line in lines if not line.startswith(key + ":")) + place + "\n"
    file = loaded(tmp_path, text, {"SECRET": CANARY})
    assert CANARY not in repr(file)
    assert CANARY not in "".join(map(str, file.problems + file.warnings + file.unset))
    assert file.problems or file.warnings


def test_a_secret_in_plain_text_is_warned_of_and_one_from_a_variable_is_not(tmp_path):
    settings = '{bootstrap.servers: "localhost:9092"}'
    text = (
        GOOD.replace(settings, "{bootstrap.servers: localhost, sasl.password: x}") + "http: {token: 0123456789abcdef}\n"
    )
    text = text.replace("sqlite:///state.db", "redis://:x@h/0")
    assert [w.key for w in loaded(tmp_path, text).warnings] == ["kafka.sasl.password", "store", "http.token"]
    better = (
        text.replace("password: x", "password: '${X}'")
        .replace("token: 0123456789abcdef", "token: '${TOKEN}'")
        .replace(":x@", ":${X}@")
    )
    assert loaded(tmp_path, better, {"X": "x", "TOKEN": CANARY * 2}).warnings == ()


def test_what_an_app_holds_of_its_secrets_is_in_no_representation_of_it():
    kafka = {"bootstrap.servers": "h:9092", "sasl.password": CANARY}
    app = App("shop", f"redis://:{CANARY}@h/0", (), kafka, http=Http(token=CANARY))
    assert "shop" in repr(app)
    assert CANARY not in f"{app} {app!r} {(app, [app.http])}"
