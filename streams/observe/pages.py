"""The pages of the HTTP port, made from the board and the supervisor's meter."""

from http import HTTPStatus

from sluicegate.schemas.native import kernel
from sluicegate.streams.observe.board import Board
from sluicegate.streams.observe.collector import exposition
from sluicegate.streams.observe.http import TEXT, Answer, Page, document
from sluicegate.streams.observe.metrics import Meter


def pages(board: Board, own: Meter) -> dict[str, Page]:
    """The answers by path."""
    chosen = kernel().name

    def livez() -> Answer:
        stuck = board.stuck()
        return document({"live": not stuck, "reasons": stuck}, good=not stuck)

    def readyz() -> Answer:
        reasons = board.unready()
        degraded = board.degraded()
        also = {"degraded": degraded} if degraded else {}
        return document({"ready": not reasons, "reasons": reasons, **also}, good=not reasons)

    return {
        "/livez": livez,
        "/readyz": readyz,
        "/metrics": lambda: Answer(HTTPStatus.OK, TEXT, exposition(board, own)),
        "/status": lambda: document({**board.status(), "kernel": chosen}),
    }
