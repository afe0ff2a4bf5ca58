"""`replay --call-handlers` over a real broker: what a handler sent is compared, and corrected by a command that is
killed again and again."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.load import create
from tests.integration.test_rewind import SHORTER, SLUICEGATE, Published, expected, headers

HANDLER = """\
from typing import Any

def total(batch: Any, send: Any) -> None:
    send({"key": batch.key, "ids": batch.value["ids"], "count": FACTOR * batch.count})
"""
SENDS = "\n    handler: called_handlers:total\n    history: NS-ended\n    dead_letters: NS-dead"


class Handled(Published):
    """As Published, for a handler that sends each group."""

    def handler(self, factor: int) -> None:
        (self.folder / "called_handlers.py").write_text(HANDLER.replace("FACTOR", str(factor)))

    def file(self, name: str, rule: str) -> Path:
        return super().file(name, rule + SENDS)

    def shadow(self, *more: str) -> tuple[int, dict[str, Any]]:
        command = [SLUICEGATE, "replay", str(self.live), "sums", "--shadow", "--from", "earliest", "--json", *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode in (0, 4), done.stdout + done.stderr
        return done.returncode, json.loads(done.stdout)


@pytest.fixture
def handled(tmp_path: Path, kafka: str, ns: str) -> Iterator[Handled]:
    create(kafka, f"{ns}-ended")
    made = Handled(tmp_path, kafka, ns, f"sqlite:///{tmp_path / 'state.db'}")
    made.handler(1)
    made.publish()
    yield made
    made.close()


def corrections(handled: Handled) -> set[tuple[Any, ...]]:
    """Those in the topic. Each is there once."""
    corrected = dict[str, tuple[Any, ...]]()
    for message in handled.all_of("mended"):
        fields, document = headers(message), json.loads(message.value())
        assert fields["sluicegate-id"] not in corrected
        assert fields["sluicegate-replay"] == "1"
        ids = tuple(document.get("ids", ()))
        assert document["count"] == 3 * len(ids)
        corrected[fields["sluicegate-id"]] = document["key"], ids, tuple(fields["sluicegate-replaces"].split(","))
    return set(corrected.values())


def test_what_a_handler_sent_is_compared_and_corrected(handled: Handled) -> None:
    sent = len(handled.all_of("out"))
    code, comparison = handled.shadow("--call-handlers")
    assert (code, comparison["identical"], comparison["notes"]) == (0, sent, [])
    handled.handler(3)
    code, comparison = handled.shadow("--call-handlers")
    assert (code, comparison["identical"], comparison["changed"]) == (4, 0, sent)
    assert comparison["examples"][0]["differs"] == ["count"]
    code, comparison = handled.shadow()
    assert (code, comparison["identical"]) == (0, sent)
    assert comparison["notes"] == ["the handler called_handlers:total is not called: what it sends is not compared"]

    before, mended = handled.state(), handled.file("mended", SHORTER)
    code, _, errors = handled.rewind(mended)
    assert code == 2
    assert "is not called here" in errors
    for place in ("committed", "sent", "committed"):
        code, _, errors = handled.rewind(mended, "--call-handlers", failing=f"correction-{place}=kill@1")
        assert code == -signal.SIGKILL, errors
    code, output, errors = handled.rewind(mended, "--call-handlers")
    assert code == 0, errors
    wanted, _ = expected(handled, 5)
    assert corrections(handled) == {record[:3] for record in wanted}
    assert sum(partition["corrections"] for partition in json.loads(output)["partitions"]) == len(wanted)
    assert handled.state() == before
    assert len(handled.all_of("out")) == sent
