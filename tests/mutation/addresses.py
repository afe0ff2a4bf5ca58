"""Guards of how systems are reached: TLS, passwords in URLs, poolers."""

from tests.mutation.guard import NEVER, Guard

TRANSPORT = ("tests/unit/config/test_transport.py",)
URLS = ("tests/unit/config/test_store_urls.py",)
POOLERS = ("tests/contracts/test_poolers.py",)

GUARDS = (
    Guard(
        "an address of PostgreSQL counts before the name beside it",
        "connectors/sql/postgresql.py",
        "(place := address or name)",
        "(place := name or address)",
        TRANSPORT,
    ),
    Guard(
        "a store without TLS is judged by the servers that its driver makes of the URL",
        "streams/config/checking/transport.py",
        "    if not tls and any(not loopback(host) for host, _ in servers):",
        "    if not tls and _elsewhere(hosts_of(file.store)):",
        TRANSPORT,
    ),
    Guard(
        "a value in a URL is percent-encoded",
        "streams/config/text/variables.py",
        "    return quote(value, safe='')".replace("'", '"'),
        "    return value",
        URLS,
    ),
    Guard(
        "a variable for the host of a URL holds no password",
        "streams/config/text/variables.py",
        '        if re.search(r"[@/?#\\s]", value):',
        f"        {NEVER}",
        URLS,
    ),
    Guard(
        "a URL whose password ends nowhere certain is refused",
        "streams/urls.py",
        '    return signs > 1 or rest.count("@") != signs',
        "    return False",
        URLS,
    ),
    Guard(
        "MySQL gets a password in UTF-8",
        "connectors/sql/mysql.py",
        "str(target.password).encode()",
        'str(target.password).encode("latin-1", "replace")',
        URLS,
    ),
    Guard(
        "a pooler that shares connections is refused",
        "connectors/sql/pooler.py",
        "    if shared:",
        f"    {NEVER}",
        POOLERS,
    ),
)
