"""`schema_registry` in the file, and what each agent makes of it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sluicegate.schemas import Avro
from sluicegate.streams import formats
from sluicegate.streams.agent import OAuthClient, Registry
from sluicegate.streams.config.text.secrets import rotated
from tests.unit.config.files import agent, lines, loaded
from tests.unit.schemas.avros import SHOP

TEXT = json.dumps(SHOP)
ONE = "schema_registry: {url: 'http://localhost:8081'}\n"
IN = "from: orders\nformat: avro\nschema: order.avsc\nframing: confluent\naggregate: {count: 10}\n"
TO = "to: {{topic: totals, format: avro, framing: confluent{}}}"
NEEDS = "write schema_registry: {url: URL} in the file, and framing: confluent beside it, or leave it out"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "order.avsc").write_text(TEXT)
    (tmp_path / "ca.pem").write_text("")
    return tmp_path


def problems(folder: Path, text: str) -> list[str]:
    return [line.removeprefix("f.yaml:") for line in lines(loaded(folder, text).problems, folder)]


def test_the_file_names_one_or_several_and_how_to_reach_them(folder: Path) -> None:
    registry = "schema_registry: {url: [https://a:1, https://b/x], auth: {username: me, password: '${PW}'}, ca: ca.pem}"
    file = loaded(folder, agent(f"{IN}{TO.format('')}") + registry, {"PW": "word"})
    assert file.problems == ()
    assert file.app.registry == Registry(("https://a:1", "https://b/x"), "me", "word", str(folder / "ca.pem"))
    [made] = file.app.agents
    name = "https://a:1,https://b/x"
    assert made.schema == Avro(TEXT, None, "confluent", registry=name)
    own = formats.result_schema(made)
    assert made.to.schema == Avro(own, None, "confluent", registry=name, subject="totals-value")
    assert "word" not in repr(file.app)


@pytest.mark.parametrize(
    ("keys", "subject", "register"),
    [
        (", subject: topic", "totals-value", False),
        (", subject: record, register: true", "{record}", True),
        (", subject: topic-record, register: false", "totals-{record}", False),
    ],
)
def test_the_strategies_of_subjects(folder: Path, keys: str, subject: str, register: bool) -> None:
    [made] = loaded(folder, agent(f"{IN}{TO.format(keys)}") + ONE).app.agents
    assert (made.to.schema.subject, made.to.schema.register) == (subject, register)


def test_an_id_that_is_given_is_written_and_nobody_is_asked(folder: Path) -> None:
    [made] = loaded(folder, agent(f"{IN}{TO.format(', schema_id: 7')}") + ONE).app.agents
    assert (made.to.schema.schema_id, made.to.schema.registry) == (7, "")


def test_without_framing_no_registry_is_asked(folder: Path) -> None:
    [made] = loaded(
        folder, agent(IN.replace("framing: confluent\n", "") + "to: {topic: t, format: avro}") + ONE
    ).app.agents
    assert (made.schema.registry, made.to.schema.registry) == ("", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            agent(IN + TO.format(", subject: record")),
            [
                "12:39: agents.a.to.framing: needs schema_id: the id of the schema in the registry; write schema_id: "
                "NUMBER beside it, or schema_registry: {url: URL} in the file",
                f"12:59: agents.a.to.subject: has no meaning without a schema registry; {NEEDS}",
            ],
        ),
        (
            agent(IN + "to: {topic: totals, format: avro, register: true}") + ONE,
            [f"12:39: agents.a.to.register: has no meaning without a schema registry; {NEEDS}"],
        ),
        (
            agent(IN + TO.format(", schema_id: 7, register: true")) + ONE,
            ["12:73: agents.a.to.register: excludes schema_id; keep one of them"],
        ),
        (
            agent(IN + "writer_schema: order.avsc\nscope: shared\nto: {topic: totals}") + ONE,
            [
                "12:5: agents.a.writer_schema: excludes schema_registry, which has the writer's schema; leave it out",
                "13:5: agents.a.scope: cannot be shared with a schema registry: another worker could lack the schema "
                "of a record; write scope: partition",
            ],
        ),
        (
            agent(IN + TO.format("")) + "schema_registry: {url: 'ftp://x', ca: none.pem, key: ca.pem}\n",
            [
                "13:19: schema_registry.url: is not a URL of a registry without a user name or password; write "
                "https://HOST:PORT, and auth beside it",
                "13:35: schema_registry.ca: is not a file; name a PEM file, relative to the folder of this file",
                "13:49: schema_registry.key: has no meaning without certificate; add certificate, or leave it out",
            ],
        ),
        (
            agent(IN + TO.format("")) + "schema_registry: {url: 'http://registry:8081'}\n",
            [
                "13:19: schema_registry.url: is on another machine and would be reached without TLS; write https:// in "
                "place of http://, or allow_plaintext: true where no other user is on the network"
            ],
        ),
        (
            agent(IN + TO.format("")) + "schema_registry: {url: []}\n",
            ["13:19: schema_registry.url: names no registry; write the URL of the registry, or a list of them"],
        ),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(folder: Path, text: str, expected: list[str]) -> None:
    assert problems(folder, text) == expected


def test_a_token_stands_for_user_name_and_password(folder: Path) -> None:
    registry = "schema_registry: {url: 'https://a', auth: {token: '${TOKEN}'}}"
    file = loaded(folder, agent(IN + TO.format("")) + registry, {"TOKEN": "word"})
    assert (file.problems, file.app.registry) == ((), Registry(("https://a",), token="word"))
    assert "word" not in repr(file.app)
    [warning] = loaded(folder, agent(IN + TO.format("")) + registry.replace("'${TOKEN}'", "word")).warnings
    assert "schema_registry.auth.token: holds a secret in plain text" in str(warning)


OAUTH = "token_url: 'https://idp/token', client_id: me, client_secret: '${SECRET}'"


def test_client_credentials_get_tokens(folder: Path) -> None:
    registry = f"schema_registry: {{url: 'https://a', auth: {{{OAUTH}, scope: read, identity_pool: pool-1}}}}"
    file = loaded(folder, agent(IN + TO.format("")) + registry, {"SECRET": "word"})
    expected = OAuthClient("https://idp/token", "me", "word", "read", identity_pool="pool-1")
    assert (file.problems, file.app.registry) == ((), Registry(("https://a",), oauth=expected))
    assert "word" not in repr(file.app)
    assert rotated(replace(file.app, registry=Registry(("https://a",))), file.app).registry.oauth == expected
    [warning] = loaded(folder, agent(IN + TO.format("")) + registry.replace("'${SECRET}'", "word")).warnings
    assert "schema_registry.auth.client_secret: holds a secret in plain text" in str(warning)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (OAUTH.replace("https://idp/token", "idp"), "token_url: is not a URL without a user name or password"),
        (OAUTH.replace("https://idp", "http://idp"), "token_url: is on another machine and would be reached without"),
    ],
)
def test_the_place_of_tokens_is_a_url_with_tls(source: str, problem: str, folder: Path) -> None:
    registry = f"schema_registry: {{url: 'https://a', auth: {{{source}}}}}"
    [complaint] = lines(loaded(folder, agent(IN + TO.format("")) + registry, {"SECRET": "word"}).problems, folder)
    assert f"schema_registry.auth.{problem}" in complaint


@pytest.mark.parametrize(
    "auth",
    [
        *("{username: me}", "{password: word}", "{username: me, password: a, token: b}", "{}", "{token: b, scope: c}"),
        *("{client_id: me, client_secret: a}", "{token: b, token_url: 'https://a', client_id: me, client_secret: a}"),
    ],
)
def test_half_of_a_login_is_refused(folder: Path, auth: str) -> None:
    [problem] = problems(folder, agent(IN + TO.format("")) + f"schema_registry: {{url: 'https://a', auth: {auth}}}")
    assert "schema_registry.auth: needs a username with a password, a token, or OAuth" in problem


def test_a_password_in_the_file_is_warned_of(folder: Path) -> None:
    registry = "schema_registry: {url: 'https://a', auth: {username: me, password: word}}"
    [warning] = loaded(folder, agent(IN + TO.format("")) + registry).warnings
    assert "schema_registry.auth.password: holds a secret in plain text" in str(warning)
    assert "word" not in str(warning).replace("password", "")


def test_a_worker_that_starts_again_has_the_password_that_the_file_names_now(folder: Path) -> None:
    app = loaded(folder, agent(IN + TO.format("")) + ONE).app
    old, new = (replace(app, registry=replace(app.registry, username="me", password=name)) for name in ("1", "2"))
    assert rotated(old, new).registry == new.registry
