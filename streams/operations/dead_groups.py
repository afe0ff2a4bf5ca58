"""Retries completed groups whose handler failed: the store keeps the group, and its owner calls the handler again.

The dead letter of a group is its result document. So it holds all that the handler gets, and the messages that the
group collected. The group goes into the changelog of its partition, in one commit with a note that names the letter: a
second retry finds the note. The claim of the command fences the owner, which claims again, calls the handler and
removes the group in the commit of its outputs.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from sluicegate.schemas.codecs import as_json
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.entry import Amendment, Section
from sluicegate.streams.aggregation.events import Closing, Fire
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import NOBODY, Changes, GroupNumber, Partition
from sluicegate.streams.handlers.packing import pack
from sluicegate.streams.journal import journal
from sluicegate.streams.journal.amending import Person, appended
from sluicegate.streams.operations.dead_letters import ASKED, SENT, Letter, noted
from sluicegate.streams.operations.open_groups import PartitionContents, held
from sluicegate.streams.outbox.rows import letters_codec

PAGE = 20  # groups of one commit
STAGES = ("handler", "lookup", "crash")
FIXED = ("key", "key_base64", "count", "reason", "opened_at", "closed_at", "window")
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def left_out(agent: Agent, letter: Letter) -> str | None:
    """Why this letter of a completed group cannot be retried. None: it can, or it is the letter of a record."""
    if not letter.whole:
        return None
    if agent.handler is None or letter.stage not in STAGES:
        what = "no handler failed for it" if letter.stage in STAGES else f"it failed in the stage {letter.stage}"
        return (
            f"it is a completed group, and {what}; its records are in its topic, and replay computes its result again"
        )
    if agent.scope == "shared":
        return "it is a group of a shared buffer, which belongs to no partition"
    try:
        group(agent, letter)
    except Exception as error:
        return f"its letter does not hold the group ({type(error).__name__}); its records are in its topic"
    return None


def group(agent: Agent, letter: Letter) -> Fire:
    """The completed group, as its handler got it. Raises what decoders raise."""
    said = {name: (value or b"").decode() for name, value in letter.headers}
    codec = letters_codec(agent, formats.writes(agent))
    document = _fields(as_json(codec)(letter.value or b""))
    opened, closed = (_seconds(msgspec.json.decode(document[name], type=str)) for name in ("opened_at", "closed_at"))
    removed = tuple(int(each) for each in said.get("sluicegate-removed", "").split(",") if each)
    first, last = (int(said[f"sluicegate-{which}"].rpartition("/")[2]) for which in ("first", "last"))
    return Fire(
        letter.key or b"",
        int(said["sluicegate-count"]),
        said["sluicegate-reason"],
        first,
        last,
        opened,
        closed,
        said.get("traceparent"),
        {name: value for name, value in document.items() if name not in FIXED},
        removed,
        window=_window(agent, said),
        retries=int(said.get("sluicegate-dead-retries", 0)) + 1,
    )


def _window(agent: Agent, said: dict[str, str]) -> Closing | None:
    if "sluicegate-window" not in said:
        return None
    start, end = (round(_seconds(each) * 1000) for each in said["sluicegate-window"].split("/"))
    by, *rests = said.get("sluicegate-closed", "").split("/")
    following, watermark = (int(each) for each in (*rests, *("-1", "0")[len(rests) :]))
    window = agent.aggregation.window if agent.aggregation is not None else None
    shared = window is not None and window.kind == "hopping"
    return Closing(start, end, by, watermark, int(said["sluicegate-revision"]), following, shared)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def retry(
    store: Store, app: str, agent: Agent, letters: Sequence[Letter], who: Callable[[], Person], again: bool
) -> tuple[int, list[str]]:
    """Let the handler be called again for these groups, each unless it was retried before (`again`: once more).
    Returns how many the store keeps now, and the letters that were retried before. The same call finishes a call that
    was killed. Raises Fenced when another process claimed in between, and PersistenceError."""
    refused: list[str] = []
    for place in sorted({(letter.topic, letter.partition) for letter in letters}):
        of_place = [letter for letter in letters if (letter.topic, letter.partition) == place]
        for at in range(0, len(of_place), PAGE):
            page, person = of_place[at : at + PAGE], who()
            journal.written(store, app, person, [noted(letter, ASKED, person) for letter in page])
            refused += _kept(store, Partition(app, agent.name, *place), agent, page, person, again)
            done = [noted(letter, SENT, person) for letter in page]
            journal.written(store, app, person._replace(token=f"{person.token}-kept"), done)
    return len(letters) - len(refused), refused


def _kept(
    store: Store, partition: Partition, agent: Agent, letters: Sequence[Letter], person: Person, again: bool
) -> list[str]:
    """Put the groups into the state of the partition. Returns the letters that were retried before."""
    claim = store.claim(partition, person.token, NOBODY)
    view = store.read(partition)
    contents = held(agent, partition, view) if view is not None else None
    refused, chosen = list[str](), dict[GroupNumber, tuple[bytes, Letter]]()
    for letter in letters:
        fire = group(agent, letter)
        if fire.number in chosen or (contents is not None and _is_kept(contents, letter, fire, again)):
            refused.append(letter.place)
        else:
            chosen[fire.number] = pack(fire), letter
    if chosen:
        entries: list[dict[str, Any]] = [
            {
                "sealed": Section({number: packed}),
                "amended": [Amendment(claim.store_time, person.who, ASKED, letter.place, person.why, letter.id)],
            }
            for number, (packed, letter) in chosen.items()
        ]
        also = Changes(claim.offset, claim.epoch, trying=claim.trying)
        appended(store, claim, also, entries[1:], **entries[0])
    return refused


def _is_kept(contents: PartitionContents, letter: Letter, fire: Fire, again: bool) -> bool:
    """Whether the group was retried before, or waits for its handler now."""
    before = any(each.what == ASKED and each.detail == letter.id for each in contents.amended)
    return fire.number in contents.sealed.held or (before and not again)
