"""`late` of `aggregate.window`: the treatment of records whose window has closed, as the file writes it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from sluicegate.streams import units
from sluicegate.streams.agent import Window
from sluicegate.streams.config.sections.described import described
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import Duration, refused
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.config.text.scalars import Native, Unknown
from sluicegate.streams.units import spoken_duration

if TYPE_CHECKING:
    from sluicegate.streams.config.sections.models_agent import AgentModel
    from sluicegate.streams.config.sections.models_groups import Aggregate

DEAD, SKIP, NEW, AMEND, EVERY = "dead-letter", "skip", "new", "amend", "every"
GATHER = 60.0
"""Seconds of `every` if the file does not say it."""
_HINT = "write dead-letter, skip, {new: 10s}, or {amend: 12h, every: 1m}"


class LateModel(FilePart, frozen=True):
    new: Duration | None = Field(
        default=None,
        description="Late records of a key and a window gather for this time and make a further result.",
        examples=["10s"],
    )
    amend: Duration | None = Field(
        default=None,
        description=(
            "How long a window stays after its result, in event time. Late records change it, and the whole result is "
            "sent again."
        ),
        examples=["12h"],
    )
    every: Duration | None = Field(
        default=None,
        description="The time from a late record to the next result that has it. Unless it is written, 1m.",
        examples=["1m"],
    )


def _as_late(value: object) -> object:
    if isinstance(value, Unknown):
        return DEAD
    if isinstance(value, LateModel) or value in (DEAD, SKIP):
        return value
    if not isinstance(value, dict) or not (NEW in value or AMEND in value):
        raise refused("names no action for late records", _HINT)
    if NEW in value and AMEND in value:
        raise refused("names two actions for late records", _HINT)
    return value


def _times(*names: str) -> dict[str, Any]:
    duration = {"type": "string", "pattern": units.DURATION}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": described(LateModel, dict.fromkeys(names, duration)),
        "required": [names[0]],
    }


_FORM = "{new} or {amend, every}"
LateField = Annotated[
    Annotated[LateModel, Tag(_FORM)] | Annotated[Literal["dead-letter", "skip"], Tag("action")],
    Discriminator(lambda value: _FORM if isinstance(value, dict | LateModel) else "action"),
    BeforeValidator(_as_late),
    WithJsonSchema({"anyOf": [{"enum": [DEAD, SKIP]}, _times(NEW), _times(AMEND, EVERY)]}),
]


def built(late: LateModel | str) -> dict[str, Any]:
    """The equivalent fields of Window."""
    if not isinstance(late, LateModel):
        return {"late": late}
    if late.amend is not None:
        return {"late": AMEND, "keep": late.amend, "gather": late.every or GATHER}
    return {"late": NEW, "gather": late.new}


def amends(late: LateModel | str) -> bool:
    return isinstance(late, LateModel) and late.amend is not None


def written(window: Window) -> object:
    """The equivalent value of `late`. Durations are seconds."""
    if window.late == NEW:
        return {NEW: Native(window.gather)}
    return {AMEND: Native(window.keep), EVERY: Native(window.gather)} if window.late == AMEND else window.late


def on_full(rule: "Aggregate") -> Literal["fire-oldest", "dead-letter", "stop"]:
    """The value of `on_full`. Windows whose results are of the whole window do not end early unless the file asks for
    it, which `findings` refuses."""
    whole = rule.window is not None and (amends(rule.window.late) or rule.window.windower.immediate)
    return "dead-letter" if whole and "on_full" not in rule.model_fields_set else rule.on_full


def findings(agent: "AgentModel", rule: "Aggregate", path: Path) -> Iterator[FileFinding]:
    """Keys that exclude further and revised results."""
    window, at = rule.window, (*path, "aggregate", "window", "late")
    if window is None or not isinstance(window.late, LateModel):
        return
    revised = amends(window.late)
    if window.late.every is not None and not revised:
        yield FileFinding((*at, EVERY), "does not go together with new", "leave it out", ((*at, EVERY), (*at, NEW)))
    if what := window.windower.untaken.get(AMEND if revised else NEW):
        yield FileFinding(at, what, "write dead-letter or skip", (at, (*at[:-1], window.word)))
    if revised:
        yield from _amended(agent, rule, path, (*at, AMEND))


def _amended(agent: "AgentModel", rule: "Aggregate", path: Path, at: Path) -> Iterator[FileFinding]:
    aggregate = (*path, "aggregate")
    whole = "a revised result replaces the one before, so it must be of the whole window"
    for place, wrong, why in (
        ((*aggregate, "count"), rule.count is not None, whole),
        ((*aggregate, "until"), rule.until is not None, whole),
        ((*aggregate, "on_full"), on_full(rule) == "fire-oldest", f"{whole}; dead-letter and stop do"),
    ):
        if wrong:
            yield FileFinding(place, f"does not go together with amend: {why}", "leave one out", (place, at))


def warnings(window: Window, at: Path) -> Iterator[FileFinding]:
    """The state of a revised window stays for a long time."""
    if window.late == AMEND and window.keep > 10 * window.size:
        many = round(window.keep / window.size)
        what = f"keeps about {many:,} windows of each key, and `max_groups` counts them"
        yield FileFinding((*at, "late", AMEND), what, "write a shorter time", ((*at, "late", AMEND),))


def meaning(window: Window, letters: str) -> str:
    """The treatment of late records, in one sentence."""
    dead = f"goes to {letters} with the reason late"
    if window.late == NEW:
        gather = spoken_duration(window.gather)
        return f"late records of a key and a window make a further result, {gather} after the first one of them"
    if window.late == AMEND:
        keep, gather = spoken_duration(window.keep), spoken_duration(window.gather)
        return (
            f"keeps a window for {keep} of event time after its close: late records change it, and the whole result is "
            f"sent again {gather} after the first one of them; what is later still {dead}"
        )
    return f"a record of a window that is closed {'is only counted' if window.late == 'skip' else dead}"
