"""The row of a partition in the model of deployments, and the row after a change of the version, a slice or a record.
Pure. `setup` is a Setup of deploying.py."""

from collections.abc import Sequence
from typing import Any, NamedTuple

ENDS = ("flush", "convert", "drop")  # the policies under which groups end before the next record


class Group(NamedTuple):
    """`members` are offsets, `layout` is the version by which the state was written. The first `again` members were
    read again: they are in a group of a newer generation, or in its result."""

    generation: int
    key: str
    members: tuple[int, ...]
    layout: int
    again: int = 0

    @property
    def holds(self) -> tuple[int, ...]:
        return self.members[self.again :]


class Result(NamedTuple):
    """A group that ended. `read` is the version by which its state was read."""

    group: Group
    read: int


class Older(NamedTuple):
    """A generation that still has groups. `until`: below this offset, only records of its groups count."""

    generation: int
    version: int
    policy: str
    until: int = -1


class Row(NamedTuple):
    """What a commit writes. `number` is the version that takes the records, -1 before the first commit."""

    offset: int = 0
    number: int = -1
    generation: int = 0
    older: tuple[Older, ...] = ()
    groups: tuple[Group, ...] = ()

    @property
    def reached(self) -> int:
        """All offsets below it were read once."""
        return max((self.offset, *(rule.until for rule in self.older)))

    @property
    def leaving(self) -> Older | None:
        """The generation whose groups end before the next record."""
        generations = {group.generation for group in self.groups}
        return next((rule for rule in self.older if rule.policy in ENDS and rule.generation in generations), None)


def policy_of(policies: Sequence[str]) -> str:
    """What happens to a group that is open before these deployments. A group whose records are read again does not
    fire."""
    for at, policy in enumerate(policies):
        if policy == "drop" or (policy == "flush" and "rewind" not in policies[:at]):
            return policy
    return "rewind" if "rewind" in policies else "finish" if "finish" in policies else "convert"


def rewindable(setup: Any, row: Row, version: int) -> bool:
    """Whether a deployment after `version` may have the open groups read again: none is of an earlier version, and the
    records of its key, from its first one on, are those of the group."""
    if row.number < 0 and setup.mutant == "rewound-before-the-first-claim":
        return True
    if (row.number != version or row.older) and setup.mutant != "rewound-while-groups-wait":
        return False
    if setup.mutant == "rewound-without-reading":
        return True
    keys = setup.keys[row.number]
    return all(
        group.members == tuple(at for at in range(group.members[0], row.offset) if keys[at] == group.key)
        for group in row.groups
    )


def switched(setup: Any, row: Row, number: int) -> Row:
    """The row under another version. Groups that are open become an older generation."""
    if row.number < 0 or setup.mutant == "generation-kept":
        return row._replace(number=number)
    newest = [group for group in row.groups if group.generation == row.generation]
    between = setup.policies[row.number : number]
    policy = policy_of(between[-1:] if setup.mutant == "policy-of-the-last-deployment" else between)
    older = tuple(rule._replace(policy=_continued(setup, rule.policy, policy)) for rule in row.older)
    if not newest:
        return row._replace(number=number, older=older)
    rest, offset, groups = Older(row.generation, row.number, policy), row.offset, row.groups
    if policy == "rewind":
        rest, offset = rest._replace(until=row.offset), min(group.members[0] for group in newest)
        if setup.mutant == "forgotten-at-the-switch":
            groups = tuple(group for group in groups if group not in newest)
    return Row(offset, number, row.generation + 1, (*older, rest), groups)


def _continued(setup: Any, policy: str, later: str) -> str:
    """What a later deployment makes of a generation that has not ended."""
    if setup.mutant == "flush-fires-what-is-read-again" and later == "flush":
        return later
    return policy_of((policy, later))


def sliced(setup: Any, row: Row, leaving: Older) -> tuple[Row, tuple[Result, ...]]:
    """The row after some groups of a generation fired, were dropped, or went on under the newest version."""
    mine = [group for group in row.groups if group.generation == leaving.generation]
    some = mine if setup.mutant == "all-in-one-commit" else mine[: setup.most]
    kept = [group for group in row.groups if group not in some]
    results: tuple[Result, ...] = ()
    if leaving.policy == "flush":
        results = tuple(Result(group, leaving.version) for group in some)
    elif leaving.policy == "convert" and setup.mutant == "converted-by-name-only":
        kept += [group._replace(generation=row.generation) for group in some]
    elif leaving.policy == "convert":
        kept += [group._replace(generation=row.generation, layout=row.number) for group in some]
    if setup.mutant == "forgotten-before-they-fire" and len(mine) > len(some):
        results = ()
    return _without_ended(setup, row._replace(groups=tuple(sorted(kept)))), results


def _without_ended(setup: Any, row: Row) -> Row:
    generations = {group.generation for group in row.groups}
    return row._replace(
        older=tuple(rule for rule in row.older if rule.generation in generations or _filters(setup, row, rule))
    )


def _filters(setup: Any, row: Row, older: Older) -> bool:
    """Whether a generation without groups still decides which records count."""
    if setup.mutant == "leaves-with-its-last-group":
        return False
    if setup.mutant == "drop-ends-the-filter" and older.policy == "drop":
        return False
    return row.offset < older.until


def taken(setup: Any, row: Row, mutant: str = "") -> tuple[Row, tuple[Result, ...]] | None:
    """The row after its next record, and the result that the record completes. None: the partition halts, because the
    record is not the one with which a group was filled."""
    counts = True
    for rule in row.older:
        if row.offset < rule.until and counts and mutant != "all-records-are-read-again":
            group = _waiting(setup, row, rule)
            counts = group is not None
            if group is not None and group.holds[0] != row.offset:
                return None
            if group is not None:
                row = _read_again(row, group, mutant)
    after, results = _counted(setup, row, mutant) if counts else (row, ())
    return _without_ended(setup, after._replace(offset=row.offset + 1)), results


def _waiting(setup: Any, row: Row, older: Older) -> Group | None:
    """The group that waits for the next record."""
    key = setup.keys[older.version][row.offset]
    groups = (group for group in row.groups if (group.generation, group.key) == (older.generation, key))
    return next((group for group in groups if row.offset >= group.members[0]), None)


def _read_again(row: Row, group: Group, mutant: str) -> Row:
    """The row whose group does not wait for its next record any more."""
    if mutant == "read-again-and-still-waiting":
        return row
    others = tuple(item for item in row.groups if item != group)
    rest = group._replace(again=group.again + 1)
    return row._replace(groups=tuple(sorted((*others, rest))) if rest.holds else others)


def _counted(setup: Any, row: Row, mutant: str) -> tuple[Row, tuple[Result, ...]]:
    """The row whose groups hold its next record, and the result that the record completes."""
    place = [(rule.generation, rule.version) for rule in row.older if rule.policy == "finish"]
    generation, version = row.generation, row.number
    for number, one in [] if mutant == "newest-first" else place:
        if any((group.generation, group.key) == (number, setup.keys[one][row.offset]) for group in row.groups):
            generation, version = number, one
            break
    key = setup.keys[version][row.offset]
    open_groups = [group for group in row.groups if (group.generation, group.key) == (generation, key)]
    group = open_groups[0] if open_groups else Group(generation, key, (), version)
    layout = version if group.layout == version else -1  # by two layouts: by none
    group = group._replace(members=(*group.members, row.offset), layout=layout)
    others = tuple(group for group in row.groups if group not in open_groups)
    done = len(group.members) == setup.count
    groups = others if done else tuple(sorted((*others, group)))
    older = () if mutant == "older-forgotten" else row.older
    return row._replace(groups=groups, older=older), (Result(group, version),) if done else ()
