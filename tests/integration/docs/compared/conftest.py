"""`scene`: a place where a program of the compare part and our file run on the same records."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.docs.compared.scene import Scene


@pytest.fixture
def scene(kafka: str, ns: str, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(kafka, ns, tmp_path)
    yield made
    made.close()
