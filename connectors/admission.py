"""Errors of servers that deny access, and of servers whose certificate is not trusted. Waiting does not help: a file or
the server must be changed.

The drivers' errors about certificates come from OpenSSL. libpq and librdkafka leave out its reason, so these functions
connect again to find it.
"""

import re
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from sluicegate.streams.errors import NotAuthenticated

SECONDS = 3.0
UNTRUSTED = re.compile(r"certificate verify failed|does not match host name", re.IGNORECASE)
REASON = re.compile(r"certificate verify failed: (?P<why>.+?)\.? *\(_ssl")
UNPROVEN = re.compile(
    r"alert (bad certificate|unknown ca|certificate \w+)|requires a valid client certificate", re.IGNORECASE
)

Greet = Callable[[socket.socket], object]
"""Sends what the protocol needs before TLS begins."""


class Files(NamedTuple):
    """The TLS files of a URL: authorities (empty: the machine's), our certificate, its key (empty: in the same file)
    and the key's password."""

    authorities: str = ""
    certificate: str = ""
    key: str = ""
    password: str = ""


def untrusted(system: str, text: str, setting: str, why: str = "") -> NotAuthenticated | None:
    """The error for a connection that failed with the text `text` because a certificate is not trusted. `setting` names
    the setting of trusted authorities. `why` is OpenSSL's reason when the driver's text lacks it."""
    if UNTRUSTED.search(text):
        match = REASON.search(text)
        reason = why or (match["why"] if match else text[:300])
        hint = f"the server needs one that is valid now, for the name in its address, from an authority in {setting}"
        return NotAuthenticated(f"{system}: the server's certificate is not trusted: {reason}; {hint}")
    if UNPROVEN.search(text):
        return _unproven(system, text, setting)
    return None


def _unproven(system: str, text: str, setting: str) -> NotAuthenticated:
    return NotAuthenticated(
        f"{system}: the server does not accept our certificate, or requires one: {text[:300]}; see {setting}"
    )


def refused(system: str, text: str, where: str) -> NotAuthenticated:
    """The error for a user or password that the server refused. `where` names the setting that holds both."""
    return NotAuthenticated(f"{system}: the server refuses user or password: {text[:300]}; correct them in {where}")


def reason(places: Sequence[tuple[str, int]], authorities: str | None, greet: Greet = lambda _: None) -> str:
    """OpenSSL's reason not to trust the certificate of one of these servers; empty when there is none."""
    for place in places:
        with suppress(OSError):
            try:
                context = ssl.create_default_context(cafile=authorities)
                with socket.create_connection(place, SECONDS) as link:
                    greet(link)
                    context.wrap_socket(link, server_hostname=place[0]).close()
            except ssl.SSLCertVerificationError as error:
                return error.verify_message.rstrip(".")
    return ""


def alert(place: tuple[str, int], tls: ssl.SSLContext, greet: Greet) -> str:
    """OpenSSL's text of the server's alert about our certificate after the handshake. Empty: there is no alert, or no
    server answers. A driver that writes at once may find the connection closed before it reads the alert."""
    with suppress(OSError), socket.create_connection(place, SECONDS) as link:
        greet(link)
        with tls.wrap_socket(link, server_hostname=place[0]) as shaken:
            try:
                shaken.settimeout(1.0)
                shaken.recv(1)
            except ssl.SSLError as error:
                return str(error)
    return ""


def context(system: str, files: Files, setting: str) -> ssl.SSLContext:
    """A TLS context of these files that checks the server's certificate and name. Raises NotAuthenticated for a file
    that cannot be used: a driver would report an outage, or ask the terminal for a password. `setting` names the
    setting of the files."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    named = files.authorities
    try:
        if files.authorities:
            tls.load_verify_locations(files.authorities)
        else:
            tls.load_default_certs()
        named = " and ".join(filter(None, (files.certificate, files.key)))
        if files.certificate:
            tls.load_cert_chain(files.certificate, files.key or None, lambda: files.password)
    except (OSError, ValueError) as error:
        known = getattr(error, "reason", None) if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)
        why = (known or "OpenSSL cannot read it").replace("_", " ").lower()
        hint = "PEM files that can be read, a key that belongs to its certificate, and the key's password are needed"
        raise NotAuthenticated(f"{system}: {named} cannot be used: {why}; {hint}: correct {setting}") from None
    return tls


def knock(system: str, places: Sequence[tuple[str, int]], tls: ssl.SSLContext, setting: str, hello: bytes) -> None:
    """Ask the first server that answers whether it accepts our certificate. `hello` is a request that the server
    answers. This serves drivers that do not report the reason, or retry for ever. Raises NotAuthenticated."""
    for place in places:
        with suppress(OSError), socket.create_connection(place, SECONDS) as link:
            _admitted(system, link, place[0], tls, setting, hello)
            return


def _admitted(system: str, link: socket.socket, host: str, tls: ssl.SSLContext, setting: str, hello: bytes) -> None:
    """Raises NotAuthenticated, and OSError for other failures. From TLS 1.3 on a server checks our certificate after
    the handshake."""
    try:
        shaken = tls.wrap_socket(link, server_hostname=host)
    except ssl.SSLError as error:
        raise untrusted(system, str(error), setting) or error from None
    with shaken:
        try:
            shaken.sendall(hello)
            text = "" if shaken.recv(1) else "it closes the connection after the handshake"
        except TimeoutError:
            raise
        except OSError as error:
            text = str(error)
    if text:
        raise _unproven(system, text, setting)
