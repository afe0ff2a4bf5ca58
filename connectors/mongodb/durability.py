"""The settings on which the durability of a MongoDB deployment depends."""

from collections.abc import Iterator

from pymongo.errors import OperationFailure

from sluicegate.connectors.mongodb import connection
from sluicegate.connectors.mongodb.connection import Document, MongoDatabase
from sluicegate.streams.contracts.values import Level
from sluicegate.streams.errors import SystemNotReady

LOWEST = (4, 4)


def check_transactions(server: connection.MongoServer) -> None:
    """Raises SystemNotReady for a standalone server: it has no transactions."""
    with connection.answering():
        hello = server.admin.command("hello")
    if "setName" not in hello and hello.get("msg") != "isdbgrid":
        raise SystemNotReady(connection.STANDALONE)


def level(server: connection.MongoServer, data: MongoDatabase) -> Level:
    """The durability that the deployment's settings give. A setting that cannot be read counts as wrong."""
    check_transactions(server)
    with connection.answering():
        hello, build = server.admin.command("hello"), server.admin.command("buildInfo")
        config = _answer(server, "replSetGetConfig").get("config")
        engine = _answer(server, "serverStatus").get("storageEngine")
        weak = [
            *weak_concern(data.write_concern.document),
            *weak_server(hello, str(build["version"])),
            *weak_set(config, engine),
        ]
    volatile = engine is not None and not engine.get("persistent")
    return Level("volatile" if volatile else "lossy" if weak else "durable", tuple(weak))


def _answer(server: connection.MongoServer, command: str) -> Document:
    """The server's answer; empty when the server refuses."""
    try:
        return dict(server.admin.command(command))
    except OperationFailure:
        return {}


def weak_concern(concern: Document) -> Iterator[str]:
    if concern.get("w") != "majority":
        yield f"the URL asks for w={concern.get('w')}, not majority"
    if concern.get("j") is not True:
        yield "the URL asks for journal=false: commits are acknowledged before they are on disk"


def weak_server(hello: Document, version: str) -> Iterator[str]:
    if not hello.get("isWritablePrimary") or hello.get("readOnly"):
        yield "the server takes no writes: it is a secondary or read-only"
    if tuple(int(part) for part in version.split("-")[0].split(".")[:2]) < LOWEST:
        yield f"version is {version}, below {'.'.join(map(str, LOWEST))}"


def weak_set(config: Document | None, engine: Document | None) -> Iterator[str]:
    if config is None:
        yield "the replica set's configuration cannot be read (replSetGetConfig refused?)"
    elif not config.get("writeConcernMajorityJournalDefault", True):
        yield "writeConcernMajorityJournalDefault is false: a majority may forget what it acknowledged"
    if engine is None:
        yield "the storage engine cannot be read (serverStatus refused?)"
    elif not engine.get("persistent"):
        yield f"the storage engine {engine.get('name')} keeps nothing on disk"
