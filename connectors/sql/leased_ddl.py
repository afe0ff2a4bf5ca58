"""The tables of the leased contracts in SQLite, as text: the store needs no SQLAlchemy until a contract is used."""

BUFFER: tuple[str, ...] = ()
TIMEOUTS: tuple[str, ...] = ()
OUTBOX: tuple[str, ...] = ()
