"""`dead_letters` of the file and of an agent: a topic, or `{topic, headers}`."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from sluicegate.streams.config.fields import TOPIC, TopicField, unless_unknown

HEADERS = ("sluicegate", "connect")
LetterHeaders = Annotated[Literal["sluicegate", "connect"], unless_unknown("sluicegate")]


class DeadLettersModel(BaseModel):
    """`headers: connect` adds the headers of Kafka Connect's dead letters to those of Sluicegate."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    topic: TopicField | None = None
    headers: LetterHeaders | None = None

    def besides(self, usual: "DeadLettersModel | None") -> "DeadLettersModel":
        """These settings, and those of the whole file where there is none."""
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
            "properties": {"topic": _TOPIC_SCHEMA, "headers": {"enum": [*HEADERS]}},
        },
        {"type": "null"},
    ],
    "default": None,
}
DeadLettersField = Annotated[DeadLettersModel | None, BeforeValidator(_as_model), WithJsonSchema(_SCHEMA)]
