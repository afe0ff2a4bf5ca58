"""An issuer of tokens, and the settings of a broker that believes it (SASL/OAUTHBEARER, KIP-768)."""

import json
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qsl

from joserfc import jwk, jwt

from tests.integration.secured.systems import RIGHT

AUDIENCE = "kafka-of-the-test"
CLIENT = "sluicegate"
_OAUTH = "org.apache.kafka.common.security.oauthbearer"


class Issuer:
    """Its tokens live for `life` seconds. `mood` garbage: its answers are not JSON."""

    def __init__(self, life: int = 60) -> None:
        self._key = jwk.RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self.life, self.mood, self.url = life, "", ""
        self.asked = Counter[str]()

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        path, _, query = request.path.partition("?")
        self.asked[path] += 1
        if path == "/jwks":
            return 200, json.dumps({"keys": [self._key.as_dict(private=False)]}).encode()
        if self.mood == "garbage":
            return 200, b"no JSON"
        wanted = dict(parse_qsl(body.decode())) | dict(parse_qsl(query))
        if not self._knows(request, wanted):
            return 401, b'{"error": "invalid_client", "error_description": "no such client"}'
        ends = int(time.time()) + self.life
        answer = {"access_token": self.token(ends), "token_type": "Bearer", "expires_in": self.life}
        return 200, json.dumps({**answer, "expires_on": str(ends), "resource": wanted.get("resource", "")}).encode()

    def _knows(self, request: BaseHTTPRequestHandler, wanted: Mapping[str, str]) -> bool:
        """By a client secret, by the header of a managed identity, or by an assertion that a service account signed."""
        basic = "Basic " + b64encode(f"{CLIENT}:{RIGHT}".encode()).decode()
        by_header = request.headers.get("Authorization") == basic or request.headers.get("X-IDENTITY-HEADER") == RIGHT
        return by_header or wanted.get("client_secret") == RIGHT or "assertion" in wanted

    def token(self, ends: int) -> str:
        claims = {"sub": CLIENT, "aud": AUDIENCE, "iss": self.url, "iat": int(time.time()) - 1, "exp": ends}
        return jwt.encode({"alg": "RS256", "kid": "one"}, claims, self._key)

    def of_the_broker(self) -> Mapping[str, str]:
        """Settings of the listener SASL."""
        here = "listener.name.sasl.oauthbearer."
        return {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{here}sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
            f"{here}sasl.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
            f"{here}sasl.oauthbearer.jwks.endpoint.url": f"{self.url}/jwks",
            f"{here}sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{here}connections.max.reauth.ms": "3600000",
        }

    def options(self) -> tuple[str, ...]:
        return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.url}/jwks",)
