"""Secrets that are told apart wherever they turn up, and in the forms in which they might."""

import base64
import uuid
from collections.abc import Sequence


class Canaries:
    """One secret for each name. They hold what URLs and files must quote; what is looked for is the part that stays as
    it is."""

    def __init__(self, names: Sequence[str]) -> None:
        self._cores = {name: f"c4n4ry{uuid.uuid4().hex[:12]}" for name in names}

    def secret(self, name: str) -> str:
        return f"{self._cores[name]}@/:%"

    def found(self, seen: bytes) -> list[str]:
        """The names of those that are in it: as they are, in hexadecimal, or in Base64 from any place on."""
        return [name for name, core in self._cores.items() if any(form in seen for form in _forms(core.encode()))]


def _forms(core: bytes) -> list[bytes]:
    shifted = [base64.b64encode(bytes(shift) + core)[start:] for shift, start in ((0, 0), (1, 2), (2, 3))]
    return [core, core.hex().encode(), *(code[:-4] for code in shifted)]
