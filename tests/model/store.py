"""The calls of the store, each atomic: claim, commit, clear_crash_mark. A mutant leaves out a step by its name."""

from tests.model.values import Changes, Known, Packet, Setup, Store

NOTHING = Known()


def last_entry(store: Store) -> int:
    """The number of the newest changelog entry."""
    return store.first + len(store.entries) - 1


def claim(setup: Setup, store: Store, token: int, process: int) -> Store:
    """A new token, and nothing else."""
    rows = () if setup.mutant == "rows-purged-at-claim" else store.rows
    return store._replace(token=token, member=process, rows=rows)


def is_current(setup: Setup, store: Store, packet: Packet) -> bool:
    """The fence: both token and version are still those of the row."""
    if setup.mutant == "no-compare-and-set":
        return True
    if setup.mutant == "token-without-version":
        return packet.token == store.token
    if setup.mutant == "version-without-token":
        return packet.version == store.version
    return packet.token == store.token and packet.version == store.version


def commit(setup: Setup, store: Store, packet: Packet) -> Store | None:
    """All of the changes, or None: fenced."""
    if not is_current(setup, store, packet):
        return None
    changes = packet.changes
    entries = (*store.entries, changes.ops) if changes.ops else store.entries
    first = max(store.first, changes.keep_from)
    since, lineage = _lineage(store, packet) if setup.budget.rewinds else (0, 0)
    return store._replace(
        version=store.version + 1,
        offset=changes.offset,
        number=max([store.number, *(row.number for row in changes.rows)]),
        first=first,
        entries=entries[first - store.first :],
        rows=_undispatched(setup, (*store.rows, *changes.rows), changes),
        trying=changes.trying,
        fires=store.fires + changes.rows,
        since=since,
        lineage=lineage,
    )


def _lineage(store: Store, packet: Packet) -> tuple[int, int]:
    return (store.since, store.lineage) if packet.token == store.lineage else (store.version + 1, packet.token)


def _undispatched(setup: Setup, rows: tuple, changes: Changes) -> tuple:
    if not changes.dispatched:
        return rows
    if setup.mutant == "acknowledged-up-to-the-highest":
        return tuple(row for row in rows if row.number > changes.dispatched[-1])
    return tuple(row for row in rows if row.number not in changes.dispatched)


def clear_crash_mark(setup: Setup, store: Store, process: int) -> Store:
    """Take the name out of the crash mark. The row is nobody's when the name stood there, or when the process made the
    last claim: a mark computed before its name was cleared, or still on its way, must not bring the name back."""
    names = store.trying[1] if store.trying else ()
    kept = tuple(name for name in names if name != process)
    rest = store._replace(trying=(store.trying[0], kept) if kept else ())
    if setup.mutant == "clear-without-fence" or (process not in names and store.member != process):
        return rest
    return rest._replace(version=store.version + 1) if setup.mutant == "clear-by-version" else rest._replace(token=0)


def known(setup: Setup, row: Store) -> Known:
    return Known(row.version, row.offset, row.lineage, row.number) if setup.budget.rewinds else NOTHING


def lost(setup: Setup, row: Store, seen: Known) -> bool:
    """Is the row not what followed on this? Its version may have been reached again: by another claim, which began too
    early then."""
    if setup.mutant == "rewind-checked-by-offset":
        return seen.offset > row.offset
    other = row.lineage != seen.lineage and setup.mutant != "rewind-checked-by-version"
    return seen.version > row.version or (other and row.since <= seen.version)


def replay(store: Store) -> dict[str, tuple[tuple[int, ...], int]]:
    """The open groups that the changelog describes: key -> (members, number of the entry that begins its
    description)."""
    return replay_entries(store.entries, store.first)


def replay_entries(entries: tuple, first: int) -> dict[str, tuple[tuple[int, ...], int]]:
    """Fold entries numbered from `first`: `+` appends to a group, `=` rewrites it, `-` closes it."""
    groups: dict[str, tuple[tuple[int, ...], int]] = {}
    for number, ops in enumerate(entries, first):
        for kind, key, members in ops:
            if kind == "-":
                groups.pop(key, None)
            elif kind == "=":
                groups[key] = (members, number)
            else:
                old, home = groups.get(key, ((), number))
                groups[key] = (old + members, home)
    return groups
