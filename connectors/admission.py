"""A server that turns us away, or one that is not who it says: waiting does not help, somebody must change a file or the server.

What drivers say of certificates comes from OpenSSL; libpq and librdkafka keep its reason to themselves, so it is asked for again.
"""

import re
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress

from streams.errors import NotAuthenticated

SECONDS = 3.0
UNTRUSTED = re.compile(r"certificate verify failed|does not match host name", re.IGNORECASE)
REASON = re.compile(r"certificate verify failed: (?P<why>.+?)\.? *\(_ssl")
UNPROVEN = re.compile(r"alert (bad certificate|unknown ca|certificate required|certificate expired)", re.IGNORECASE)

Greet = Callable[[socket.socket], object]
"""What a protocol says before TLS begins."""


def untrusted(system: str, said: str, setting: str, why: str = "") -> NotAuthenticated | None:
    """The error for a connection that failed with the words `said`, when a certificate is the reason. `setting` names the authorities
    that are trusted, `why` is OpenSSL's reason where the driver keeps it."""
    if UNTRUSTED.search(said):
        found = REASON.search(said)
        reason = why or (found["why"] if found else said[:300])
        hint = f"the server needs one that is valid now, for the name in its address, from an authority in {setting}"
        return NotAuthenticated(f"{system}: the server's certificate is not trusted: {reason}; {hint}")
    if UNPROVEN.search(said):
        return NotAuthenticated(f"{system}: the server does not accept our certificate, or wants one: {said[:300]}; see {setting}")
    return None


def refused(system: str, said: str, where: str) -> NotAuthenticated:
    """The error for a user or password that the server refused; `where` they are written."""
    return NotAuthenticated(f"{system}: the server refuses user or password: {said[:300]}; correct them in {where}")


def reason(places: Sequence[tuple[str, int]], authorities: str | None, greet: Greet = lambda _: None) -> str:
    """Why the certificate of the first of these servers that has a bad one is not trusted, in OpenSSL's words; empty when none says."""
    for host, port in places:
        with suppress(OSError):
            try:
                _shake(host, port, ssl.create_default_context(cafile=authorities), greet)
            except ssl.SSLCertVerificationError as error:
                return error.verify_message.rstrip(".")
    return ""


def _shake(host: str, port: int, context: ssl.SSLContext, greet: Greet) -> None:
    with socket.create_connection((host, port), SECONDS) as link:
        greet(link)
        context.wrap_socket(link, server_hostname=host).close()
