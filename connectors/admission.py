"""A server that turns us away, or one that is not who it says: waiting does not help, somebody must change a file or
the server.

What drivers say of certificates comes from OpenSSL; libpq and librdkafka keep its reason to themselves, so it is asked
for again.
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
"""What a protocol says before TLS begins."""


class Files(NamedTuple):
    """What a URL names for TLS: authorities (empty: the machine's), our certificate, its key (empty: in the same file)
    and the key's password."""

    authorities: str = ""
    certificate: str = ""
    key: str = ""
    password: str = ""


def untrusted(system: str, said: str, setting: str, why: str = "") -> NotAuthenticated | None:
    """The error for a connection that failed with the words `said`, when a certificate is the reason. `setting` names
    the authorities that are trusted, `why` is OpenSSL's reason where the driver keeps it."""
    if UNTRUSTED.search(said):
        found = REASON.search(said)
        reason = why or (found["why"] if found else said[:300])
        hint = f"the server needs one that is valid now, for the name in its address, from an authority in {setting}"
        return NotAuthenticated(f"{system}: the server's certificate is not trusted: {reason}; {hint}")
    if UNPROVEN.search(said):
        return _unproven(system, said, setting)
    return None


def _unproven(system: str, said: str, setting: str) -> NotAuthenticated:
    return NotAuthenticated(
        f"{system}: the server does not accept our certificate, or wants one: {said[:300]}; see {setting}"
    )


def refused(system: str, said: str, where: str) -> NotAuthenticated:
    """The error for a user or password that the server refused; `where` they are written."""
    return NotAuthenticated(f"{system}: the server refuses user or password: {said[:300]}; correct them in {where}")


def reason(places: Sequence[tuple[str, int]], authorities: str | None, greet: Greet = lambda _: None) -> str:
    """Why the certificate of the first of these servers that has a bad one is not trusted, in OpenSSL's words; empty
    when none says."""
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


def alert(place: tuple[str, int], made: ssl.SSLContext, greet: Greet) -> str:
    """What this server says of our certificate after the handshake, in OpenSSL's words; empty when it waits for more,
    or is away. Drivers that write at once may find the connection ended before they read why."""
    with suppress(OSError), socket.create_connection(place, SECONDS) as link:
        greet(link)
        with made.wrap_socket(link, server_hostname=place[0]) as shaken:
            try:
                shaken.settimeout(1.0)
                shaken.recv(1)
            except ssl.SSLError as error:
                return str(error)
    return ""


def context(system: str, files: Files, setting: str) -> ssl.SSLContext:
    """One that checks certificate and name, with these files. Raises NotAuthenticated for one that cannot be used; a
    driver would call that an outage, or ask the terminal for a password. `setting` says where they are named."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    named = files.authorities
    try:
        if files.authorities:
            made.load_verify_locations(files.authorities)
        else:
            made.load_default_certs()
        named = " and ".join(filter(None, (files.certificate, files.key)))
        if files.certificate:
            made.load_cert_chain(files.certificate, files.key or None, lambda: files.password)
    except (OSError, ValueError) as error:
        known = getattr(error, "reason", None) if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)
        why = (known or "OpenSSL cannot read it").replace("_", " ").lower()
        hint = "PEM files that can be read, a key that belongs to its certificate, and the key's password are needed"
        raise NotAuthenticated(f"{system}: {named} cannot be used: {why}; {hint}: correct {setting}") from None
    return made


def knock(system: str, places: Sequence[tuple[str, int]], made: ssl.SSLContext, setting: str, hello: bytes) -> None:
    """Ask the first of these servers that is there whether it lets us in; `hello` is something that it answers. For
    drivers that keep its reason to themselves, or go on trying. Raises NotAuthenticated."""
    for place in places:
        with suppress(OSError), socket.create_connection(place, SECONDS) as link:
            _admitted(system, link, place[0], made, setting, hello)
            return


def _admitted(system: str, link: socket.socket, host: str, made: ssl.SSLContext, setting: str, hello: bytes) -> None:
    """Raises NotAuthenticated, and OSError for what is no refusal. From TLS 1.3 on a server judges our certificate
    after the handshake."""
    try:
        shaken = made.wrap_socket(link, server_hostname=host)
    except ssl.SSLError as error:
        raise untrusted(system, str(error), setting) or error from None
    with shaken:
        said = _answer(shaken, hello)
    if said:
        raise _unproven(system, said, setting)


def _answer(shaken: ssl.SSLSocket, hello: bytes) -> str:
    """Empty when there is one, else why not. Raises TimeoutError."""
    try:
        shaken.sendall(hello)
        return "" if shaken.recv(1) else "it closes the connection after the handshake"
    except TimeoutError:
        raise
    except OSError as error:
        return str(error)
