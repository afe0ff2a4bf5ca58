"""The client of the schema registry over TLS, with a password, and with answers that no good registry gives."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sluicegate.connectors import open_registry
from sluicegate.schemas.codecs import Unavailable
from sluicegate.schemas.registry import SubjectRefused, UnknownId
from sluicegate.streams.agent import Registry
from sluicegate.streams.errors import ConfigurationError
from tests.servers.certificates import Certificate, authority
from tests.servers.process import free_port

SCHEMA = '"int"'
ANSWERS: dict[str, tuple[int, Any]] = {
    "/schemas/ids/7": (200, {"schema": SCHEMA}),
    "/schemas/ids/8": (200, {"schema": SCHEMA, "schemaType": "PROTOBUF"}),
    "/schemas/ids/9": (200, {"schema": SCHEMA, "references": [{"name": "a", "subject": "gone", "version": 1}]}),
    "/schemas/ids/13": (200, {"schema": SCHEMA, "references": [{"name": "a", "subject": "text", "version": 1}]}),
    "/subjects/gone/versions/1": (404, {"error_code": 40402, "message": "Version not found"}),
    "/subjects/text/versions/1": (200, {"subject": "text", "version": 1, "id": 3, "schema": "no schema"}),
    "/schemas/ids/10": (404, {"error_code": 40403, "message": "Schema not found"}),
    "/schemas/ids/11": (503, {"error_code": 50003, "message": "no leader"}),
    "/schemas/ids/12": (500, {}),
    "/subjects/a-value/versions": (409, {"error_code": 409, "message": "Incompatible:\n  a field"}),
    "/subjects/a-value": (404, {"error_code": 40403, "message": "Schema not found"}),
}
PASSWORD = "c4n4ry-7Hq"


class Stub(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        basic = "Basic " + base64.b64encode(f"me:{PASSWORD}".encode()).decode()
        allowed = self.headers.get("Authorization") in (basic, f"Bearer {PASSWORD}")
        code, answer = (
            ANSWERS[self.path.partition("?")[0]] if allowed else (401, {"error_code": 401, "message": "who?"})
        )
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return authority(tmp_path / "own").certified("server")


@pytest.fixture
def url(certificate: Certificate) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    server = ThreadingHTTPServer(("localhost", free_port()), Stub)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"https://localhost:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def registry(url: str, certificate: Certificate, *before: str, **other: Any) -> Any:
    settings = {"username": "me", "password": PASSWORD, "ca": str(certificate.authority), "timeout": 2.0} | other
    return open_registry(Registry((*before, url), **settings))


def test_it_is_reached_over_tls_with_a_password_by_the_first_url_that_answers(
    url: str, certificate: Certificate
) -> None:
    away = f"https://localhost:{free_port()}"
    assert registry(url, certificate, away).schema(7, "AVRO") == SCHEMA


def test_a_bearer_token_stands_for_the_password(url: str, certificate: Certificate) -> None:
    bearer = {"username": None, "password": None}
    assert registry(url, certificate, token=PASSWORD, **bearer).schema(7, "AVRO") == SCHEMA
    with pytest.raises(Unavailable, match=r"answers with HTTP 401 \(who\?\)") as caught:
        registry(url, certificate, token="an0ther", **bearer).schema(7, "AVRO")
    assert "an0ther" not in str(caught.value)


@pytest.mark.parametrize(
    ("id", "kind", "error"),
    [
        (8, UnknownId, "is PROTOBUF, not AVRO"),
        (9, UnknownId, "schema 9 refers to version 1 of the subject gone, which the schema registry at"),
        (13, UnknownId, "schema id 13 and the schemas that it refers to cannot be read"),
        (10, UnknownId, "has no schema with id 10"),
        (11, Unavailable, r"answers with HTTP 503 \(no leader\)"),
        (12, Unavailable, "answers with HTTP 500"),
    ],
)
def test_what_it_answers(id: int, kind: type[Exception], error: str, url: str, certificate: Certificate) -> None:
    with pytest.raises(kind, match=error) as caught:
        registry(url, certificate).schema(id, "AVRO")
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("register", "words"),
    [
        (True, "refuses the schema: Incompatible: a field; correct the schema, or the subject's compatibility level"),
        (False, "does not have the schema: Schema not found; register it, or write register: true"),
    ],
)
def test_a_refusal_has_its_words(register: bool, words: str, url: str, certificate: Certificate) -> None:
    with pytest.raises(SubjectRefused) as caught:
        registry(url, certificate).id("a-value", SCHEMA, register, "AVRO")
    assert str(caught.value) == f"subject a-value: the schema registry at {url} {words}"


def test_what_is_not_allowed_and_what_is_not_trusted_is_said(
    url: str, certificate: Certificate, tmp_path: Path
) -> None:
    with pytest.raises(Unavailable, match=r"answers with HTTP 401 \(who\?\)"):
        registry(url, certificate, password="another").schema(7, "AVRO")
    other = authority(tmp_path / "other").certified("server")
    with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
        registry(url, other).schema(7, "AVRO")
    with pytest.raises(ConfigurationError, match="the certificates of the schema registry cannot be used"):
        registry(url, certificate, ca=str(tmp_path / "none.pem"))
