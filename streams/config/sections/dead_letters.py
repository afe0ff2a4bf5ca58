"""`dead_letters` of the file and of an agent: a topic, or `{topic, headers}`."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from sluicegate.streams.config.sections.described import described
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import TOPIC, TopicField, unless_unknown

HEADERS = ("sluicegate", "connect")
LetterHeaders = Annotated[Literal["sluicegate", "connect"], unless_unknown("sluicegate")]


class DeadLettersModel(FilePart, frozen=True):
    """`headers: connect` adds the headers of Kafka Connect's dead letters to Sluicegate's own headers."""

    topic: TopicField | None = Field(
        default=None, description="The topic that dead letters are written to.", examples=["shop.dead"]
    )
    headers: LetterHeaders | None = Field(
        default=None,
        description="`connect` adds the headers of Kafka Connect's dead letters to Sluicegate's own headers.",
        examples=["connect"],
    )

    def besides(self, usual: "DeadLettersModel | None") -> "DeadLettersModel":
        """These settings, with the settings of the whole file as defaults."""
        if usual is None:
            return self
        return DeadLettersModel.model_construct(topic=self.topic or usual.topic, headers=self.headers or usual.headers)


def _as_model(value: object) -> object:
    return value if value is None or isinstance(value, dict | DeadLettersModel) else {"topic": value}


_TOPIC_SCHEMA = {"type": "string", "pattern": TOPIC}
_SCHEMA = {
    "anyOf": [
        _TOPIC_SCHEMA,
        {
            "type": "object",
            "additionalProperties": False,
            "properties": described(DeadLettersModel, {"topic": _TOPIC_SCHEMA, "headers": {"enum": [*HEADERS]}}),
        },
        {"type": "null"},
    ],
    "default": None,
}
DeadLettersField = Annotated[DeadLettersModel | None, BeforeValidator(_as_model), WithJsonSchema(_SCHEMA)]
