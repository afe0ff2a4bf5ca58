"""Logins with short-lived tokens, as the Kafka of a cloud asks for them: SASL/OAUTHBEARER (KIP-255, KIP-768).

The setting `login` of a file names one. librdkafka has no such setting, so `expanded` puts librdkafka's own settings in
its place. For `oidc` librdkafka asks the issuer for tokens. For the others a small library of the cloud makes them; an
extra installs it.
"""

import base64
import json
import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from sluicegate.streams.errors import ConfigurationError, SystemNotReady

log = logging.getLogger("sluicegate.connectors.kafka")
SPARE = 5.0
"""Seconds. A token that ends sooner is of no use."""
LONGEST = 500
"""Characters of the text of an error."""
TokenAndEnd = tuple[str, float]
"""A token, and the time at which it ends, in seconds since 1970."""
_MSK_HOST = re.compile(r"\.([a-z]{2,4}(?:-[a-z]+)+-\d)\.amazonaws\.com(?:\.cn)?(?::\d+)?$")
_EVENT_HUBS = re.compile(r"^([\w-]+(?:\.servicebus\.[\w.-]+))(?::\d+)?$")


class Login(NamedTuple):
    """A kind of login. `tokens` makes the function that asks for a new token. Without it librdkafka asks an issuer by
    itself. The extra installs the `modules`."""

    extra: str = ""
    modules: Sequence[str] = ()
    tokens: Callable[[Mapping[str, Any]], Callable[[], TokenAndEnd]] | None = None


def expanded(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of librdkafka for a client. Raises ConfigurationError for a library that is not installed, and for
    settings from which the login cannot be made. Raises SystemNotReady if there is no token."""
    wanted = dict(kafka)
    name = wanted.pop("login", None)
    if name is None:
        return wanted
    require(kafka)
    if (tokens := LOGINS[str(name)].tokens) is None:
        return {**_DEFAULTS, "sasl.oauthbearer.method": "oidc", **wanted}
    return {**_DEFAULTS, **wanted, "oauth_cb": TokenRenewal(str(name), tokens(wanted))}


def require(kafka: Mapping[str, Any]) -> None:
    """Raises ConfigurationError unless the library of the login is installed."""
    name = kafka.get("login")
    login = LOGINS[str(name)] if name is not None else Login()
    try:
        for module in login.modules:
            import_module(module)
    except ImportError:
        hint = f'pip install "sluicegate[{login.extra}]"'
        raise ConfigurationError(f"the library of login {name} is not installed: {hint}") from None


class TokenRenewal:
    """The callback of one client. The client asks for the next token when four fifths of a token's lifetime are over.
    The first token is asked for before the client is made, because a client without a token gives no reason. While no
    new token can be had, the old one is used until it ends."""

    def __init__(self, name: str, tokens: Callable[[], TokenAndEnd]) -> None:
        """Raises SystemNotReady."""
        self._name, self._tokens, self._first = name, tokens, True
        try:
            self._token, self._ends = tokens()
        except Exception as error:
            raise SystemNotReady(f"Kafka: login {name}: no token: {_text(error)}") from error

    def __call__(self, _config: str) -> TokenAndEnd:
        if self._first:
            self._first = False
            return self._token, self._ends
        try:
            self._token, self._ends = self._tokens()
        except Exception as error:
            if self.validity < SPARE:
                raise
            log.warning(
                "login %s: no new token, the old one is valid for %d s: %s", self._name, self.validity, _text(error)
            )
        return self._token, self._ends

    @property
    def validity(self) -> float:
        """Seconds until the token ends."""
        return self._ends - time.time()


def _text(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST]


def _msk_iam(kafka: Mapping[str, Any]) -> Callable[[], TokenAndEnd]:
    """Tokens for Amazon MSK: a request signed with the credentials that the AWS SDK finds. A token is valid for 15
    minutes."""
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    region = _region(kafka)

    def token() -> TokenAndEnd:
        text, milliseconds = MSKAuthTokenProvider.generate_auth_token(region)
        return text, milliseconds / 1000

    return token


def _region(kafka: Mapping[str, Any]) -> str:
    matches = (_MSK_HOST.search(place.strip()) for place in str(kafka.get("bootstrap.servers", "")).split(","))
    regions = {match[1] for match in matches if match}
    known = regions or {os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""}
    if len(known) > 1 or not (region := known.pop()):
        raise ConfigurationError(
            "kafka.login: msk-iam cannot tell the region: bootstrap.servers does not name hosts of one region; set "
            "AWS_REGION"
        )
    return region


def _azure(kafka: Mapping[str, Any]) -> Callable[[], TokenAndEnd]:
    """Tokens of Microsoft Entra ID. DefaultAzureCredential tries environment, workload identity, managed identity and
    the command line, and uses the first that works."""
    credential = _azure_credential()
    scope = str(kafka.get("sasl.oauthbearer.scope") or _azure_scope(str(kafka.get("bootstrap.servers", ""))))

    def token() -> TokenAndEnd:
        access = credential.get_token(scope)
        return access.token, float(access.expires_on)

    return token


def _azure_scope(servers: str) -> str:
    match = _EVENT_HUBS.match(servers.split(",")[0].strip())
    if match is None:
        raise ConfigurationError(
            "kafka.login: azure cannot tell the scope of its tokens: bootstrap.servers names no namespace of Event "
            "Hubs; write sasl.oauthbearer.scope, such as https://NAMESPACE.servicebus.windows.net/.default"
        )
    return f"https://{match[1]}/.default"


@cache
def _azure_credential() -> Any:
    """The credential of all clients of the process. It caches its tokens."""
    from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()


def _gcp(_kafka: Mapping[str, Any]) -> Callable[[], TokenAndEnd]:
    """Tokens for Google's Managed Service for Apache Kafka. They wrap an access token of the application default
    credentials in the form of a JWT: three parts, of which the last is the access token."""
    from google.auth.transport.requests import Request

    credentials = _google_credentials()

    def token() -> TokenAndEnd:
        if not credentials.valid:
            credentials.refresh(Request())
        ends = credentials.expiry.replace(tzinfo=UTC).timestamp() if credentials.expiry else time.time() + 3600
        subject = getattr(credentials, "service_account_email", None) or getattr(credentials, "account", "")
        claims = {"exp": ends, "iat": time.time(), "iss": "Google", "scope": "kafka", "sub": subject}
        parts = (json.dumps({"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}), json.dumps(claims), credentials.token)
        return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts), ends

    return token


@cache
def _google_credentials() -> Any:
    import google.auth

    credentials, _project = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
    return credentials


_DEFAULTS = {"security.protocol": "sasl_ssl", "sasl.mechanisms": "OAUTHBEARER"}
LOGINS: Mapping[str, Login] = {
    "oidc": Login(),
    "msk-iam": Login("msk-iam", ("aws_msk_iam_sasl_signer",), _msk_iam),
    "azure": Login("azure", ("azure.identity",), _azure),
    "gcp": Login("gcp", ("google.auth", "google.auth.transport.requests"), _gcp),
}
