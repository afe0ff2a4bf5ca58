"""What a consumer sees of one record: the only thing the checker knows."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Seen:
    """One record of a topic; `headers` by name, the last of a name counts."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset

    @property
    def number(self) -> tuple[str, str]:
        """Shard and number: what a receiver drops repeats by."""
        return self.headers.get("sluicegate-shard", ""), self.headers.get("sluicegate-seq", "")

    @property
    def id(self) -> str:
        return self.headers.get("sluicegate-id", "")
