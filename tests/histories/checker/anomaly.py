"""What a checker finds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Anomaly:
    """`kind` is a name of Adya's or of Elle's; `why` is the evidence, in words."""

    kind: str
    why: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.why}"
