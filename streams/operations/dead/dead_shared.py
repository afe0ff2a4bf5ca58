"""Retries completed groups of `scope: shared` that became dead letters. Each goes into the shared buffer as a batch,
and a worker fires it.

A position in the buffer counts the retries of a letter; the insert compares and moves it. So a retry inserts its group
once, even if the command is killed and repeated, or several commands run at once.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta

from sluicegate.streams import failpoints
from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.headers import DEAD_MEMBERS, LAST
from sluicegate.streams.contracts.ids import retry_id
from sluicegate.streams.contracts.leased_values import Gate, PositionMove
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.engine.build_shared import source_of
from sluicegate.streams.errors import WatermarkMoved
from sluicegate.streams.journal import journal
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.dead.dead_groups import PAGE, GroupLetter
from sluicegate.streams.operations.dead.dead_letters import ASKED, SENT, Letter, by_letter, noted, tries
from sluicegate.streams.shared.shared_records import RecordOrigin, buffer_name
from sluicegate.streams.shared.shared_retries import GROUP, RetriedGroup, packed

GATE = Gate(count=1, lease=timedelta(seconds=1))
"""It seals the group with its insert. The command releases the batch; when it is killed, the lease ends."""


def retry(
    store: Store, app: str, agent: Agent, letters: Sequence[GroupLetter], who: Callable[[], Person], again: bool
) -> tuple[int, list[str]]:
    """Same as sluicegate.streams.operations.dead.dead_groups.retry."""
    refused: list[str] = []
    for at in range(0, len(letters), PAGE):
        page, person = letters[at : at + PAGE], who()
        earlier = {letter.letter.place for letter in letters[:at]}
        plan, others = _planned(store, app, agent, page, earlier, again)
        notes = [noted(group.letter, ASKED, person, number) for group, number in plan]
        journal.written(store, app, person, notes)
        failpoints.hit("group-asked")
        done = [group.letter.place for group, number in plan if not _keep(store, app, agent, group, number)]
        failpoints.hit("group-kept")
        notes = [noted(group.letter, SENT, person, number) for group, number in plan]
        journal.written(store, app, person._replace(token=f"{person.token}-kept"), notes)
        refused += [*others, *done]
    return len(letters) - len(refused), refused


def _planned(
    store: Store, app: str, agent: Agent, page: Sequence[GroupLetter], earlier: set[str], again: bool
) -> tuple[list[tuple[GroupLetter, int]], list[str]]:
    """The groups with the numbers of their retries, and the letters that are not retried: retried ones, and other
    letters of a group that is retried. The journal forgets retries after a while; then the position gives the
    number."""
    notes = by_letter(journal.notes(store, app))
    plan: list[tuple[GroupLetter, int]] = []
    refused, chosen = list[str](), set(earlier)
    for group in page:
        tried = tries(group.letter, notes)
        number = tried.number if tried.open or again or not tried.number else None
        if again and not tried.known:
            number = _retry_count(store, app, agent, group.letter)
        if number is None or group.letter.place in chosen:
            refused.append(group.letter.place)
        else:
            chosen.add(group.letter.place)
            plan.append((group, number))
    return plan, refused


def _retry_count(store: Store, app: str, agent: Agent, letter: Letter) -> int:
    """The number of retries of the letter so far."""
    return store.buffer.position(buffer_name(app, agent.name), _counter(letter), 0)


def _counter(letter: Letter) -> str:
    """The topic id of the letter's position. The id of a letter may be any text."""
    return GROUP + retry_id(letter.id, 0)


def _keep(store: Store, app: str, agent: Agent, group: GroupLetter, number: int) -> bool:
    """Puts the group into the buffer, unless this retry of its letter did so before."""
    name, stands = buffer_name(app, agent.name), _retry_count(store, app, agent, group.letter)
    if stands > number:
        return False
    moves = PositionMove(_counter(group.letter), 0, stands, number + 1)
    try:
        batches = store.buffer.insert_packs(name, [packed(_group(store, app, agent, group, number))], GATE, moves)
    except WatermarkMoved:
        return False
    failpoints.hit("group-inserted")
    for batch in batches:
        store.buffer.release(name, batch, 0)
    return True


def _group(store: Store, app: str, agent: Agent, group: GroupLetter, number: int) -> RetriedGroup:
    letter, headers = group.letter, dict(group.letter.headers)
    topic, partition, offset = (headers[LAST] or b"").decode().rsplit("/", 2)
    place = letter.topic, letter.partition
    first = RecordOrigin(letter.topic, source_of(store, app, agent, place), letter.partition, letter.offset)
    last = RecordOrigin(topic, "", int(partition), int(offset))
    return RetriedGroup(retry_id(letter.id, number), first, last, headers.get(DEAD_MEMBERS), group.fire)
