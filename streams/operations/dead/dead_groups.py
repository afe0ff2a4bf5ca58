"""Retries completed groups that became dead letters: the store keeps the group, and its owner decides again.

The group goes into the changelog of its partition, in one commit with a note that names the letter. A second retry
finds the note. The claim of the command fences the owner, which then claims again. Under the clauses of the file the
owner makes the outputs of the group or calls its handler, and removes the group in the commit of the outputs.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sluicegate.streams import failpoints
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.durable.entry import Amendment, Section
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import NOBODY, Changes, GroupNumber, Partition
from sluicegate.streams.handlers.packing import pack
from sluicegate.streams.journal import journal
from sluicegate.streams.journal.amending import Person, appended
from sluicegate.streams.operations.dead.dead_letters import ASKED, SENT, LeftOut, Letter, Unrepairable, noted
from sluicegate.streams.operations.dead.group_letters import group
from sluicegate.streams.operations.dead.group_members import ReadRange
from sluicegate.streams.operations.groups.contents import PartitionContents, contents_of

PAGE = 20  # groups of one commit


class GroupLetter(NamedTuple):
    """A dead letter, and its completed group."""

    letter: Letter
    fire: Fire


def groups(
    app: str, agent: Agent, letters: Sequence[Letter], read: ReadRange
) -> tuple[list[GroupLetter], list[LeftOut]]:
    """The groups of these letters, and the letters that cannot be retried. Raises SystemNotReady."""
    group_letters, rest = list[GroupLetter](), list[LeftOut]()
    for letter in letters:
        try:
            group_letters.append(GroupLetter(letter, group(app, agent, letter, read)))
        except Unrepairable as why:
            rest.append(LeftOut(letter.place, f"it is a completed group: {why}"))
    return group_letters, rest


def retry(
    store: Store, app: str, agent: Agent, letters: Sequence[GroupLetter], who: Callable[[], Person], again: bool
) -> tuple[int, list[str]]:
    """Lets the owner decide again about these groups, once each (`again`: once more). Returns the number of groups that
    the store keeps now, and the letters that were retried before. The same call finishes a call that was killed. Raises
    Fenced when another process claimed in between, and PersistenceError."""
    refused: list[str] = []
    for place in sorted({(letter.letter.topic, letter.letter.partition) for letter in letters}):
        of_place = [letter for letter in letters if (letter.letter.topic, letter.letter.partition) == place]
        for at in range(0, len(of_place), PAGE):
            page, person = of_place[at : at + PAGE], who()
            journal.written(store, app, person, [noted(dead_group.letter, ASKED, person) for dead_group in page])
            failpoints.hit("group-asked")
            refused += _keep(store, Partition(app, agent.name, *place), agent, page, person, again)
            failpoints.hit("group-kept")
            done = [noted(dead_group.letter, SENT, person) for dead_group in page]
            journal.written(store, app, person._replace(token=f"{person.token}-kept"), done)
    return len(letters) - len(refused), refused


def _keep(
    store: Store, partition: Partition, agent: Agent, letters: Sequence[GroupLetter], person: Person, again: bool
) -> list[str]:
    """Puts the groups into the state of the partition. Returns the letters that were retried before."""
    claim = store.claim(partition, person.token, NOBODY)
    view = store.read(partition)
    contents = contents_of(agent, partition, view) if view is not None else None
    refused, chosen = list[str](), dict[GroupNumber, GroupLetter]()
    for dead_group in letters:
        if dead_group.fire.number in chosen or (contents is not None and _is_kept(contents, dead_group, again)):
            refused.append(dead_group.letter.place)
        else:
            chosen[dead_group.fire.number] = dead_group
    if chosen:
        entries: list[dict[str, Any]] = [
            {
                "sealed": Section({number: pack(fire)}),
                "amended": [Amendment(claim.store_time, person.who, ASKED, letter.place, person.why, letter.id)],
            }
            for number, (letter, fire) in chosen.items()
        ]
        also = Changes(claim.offset, claim.epoch, trying=claim.trying)
        appended(store, claim, also, entries[1:], **entries[0])
    return refused


def _is_kept(contents: PartitionContents, dead_group: GroupLetter, again: bool) -> bool:
    """Whether the group was retried before, or waits for its owner now."""
    before = any(done.what == ASKED and done.detail == dead_group.letter.id for done in contents.amended)
    return dead_group.fire.number in contents.sealed.by_number or (before and not again)
