"""The outputs of an agent: topics, and the values that they get."""

from dataclasses import dataclass
from typing import Literal

from sluicegate.schemas.options import SchemaOptions


@dataclass(frozen=True, slots=True)
class Selected:
    """A field of an output's value. An empty `expression` copies the field of the same name of the result, or of the
    forwarded record, if it exists."""

    name: str
    expression: str = ""


@dataclass(frozen=True, slots=True)
class EventEnvelope:
    """An output whose messages are CloudEvents of this `type` and `source`. Without a source it is `/APP/AGENT`."""

    mode: Literal["binary", "structured"]
    type: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Destination:
    """An output topic. `format` is the name of a codec of `sluicegate.schemas`. For the format `avro` without `schema`,
    the schema is derived from the computed fields (sluicegate.streams.formats). `select` lists the fields of the value;
    empty means the whole result, or the whole value of a forwarded record, which is as it came unless `converts`: then
    it is written anew, in `format`.

    A route (an element of `Agent.routes`) takes the results, or the forwarded records, for which `where` is true. With
    `goes_on`, the routes after it are tried as well.
    """

    topic: str
    format: str = "json"
    schema: SchemaOptions | None = None
    select: tuple[Selected, ...] = ()
    where: str = ""
    goes_on: bool = False
    envelope: EventEnvelope | None = None
    converts: bool = False
