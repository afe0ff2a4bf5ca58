"""Protobuf schemas: sets of file descriptors in base64, whose last file has the message, and texts of `.proto` files,
from which only the names of messages are read."""

import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

MAKE = "make one with protoc --include_imports --descriptor_set_out=FILE.desc FILE.proto"
_WELL_KNOWN = {
    module.DESCRIPTOR.name: module.DESCRIPTOR
    for module in (
        *(any_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2),
        *(source_context_pb2, struct_pb2, timestamp_pb2, type_pb2, wrappers_pb2),
    )
}
_TOKENS = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[\w.]+|\S""", re.S)

IndexPath = tuple[int, ...]


def files(text: str) -> Sequence[FileDescriptorProto]:
    """The file descriptors of a set. Raises ValueError."""
    try:
        files_ = FileDescriptorSet.FromString(b64decode(text, validate=True)).file
    except (Error, ValueError, DecodeError):
        files_ = None
    if not files_ or not files_[-1].name:
        what = "is the text of a .proto file, not" if _declared(text) else "is not"
        raise ValueError(f"{what} a set of file descriptors; {MAKE}")
    files: Sequence[FileDescriptorProto] = files_
    return files


def descriptor_set(descriptors: Sequence[FileDescriptorProto]) -> str:
    return b64encode(FileDescriptorSet(file=descriptors).SerializeToString(deterministic=True)).decode()


@cache
def message(text: str, name: str) -> Descriptor:
    """The message of this full name; without a name, the only one of the last file. Raises ValueError."""
    pool, last = _pool(text), files(text)[-1]
    if not name:
        names = [message.name for message in last.message_type]
        if len(names) != 1:
            raise ValueError(f"has {len(names)} messages in {last.name}; write message: NAME")
        name = f"{last.package}.{names[0]}" if last.package else names[0]
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError:
        raise ValueError(f"has no message {name}; write the full name, with its package") from None


@cache
def _pool(text: str) -> DescriptorPool:
    pool, missing = DescriptorPool(), {file.name: file for file in files(text)}

    def add(name: str) -> None:
        file = missing.pop(name, None)
        if file is None:
            if name not in _WELL_KNOWN or name in known:
                return
            file = FileDescriptorProto()
            _WELL_KNOWN[name].CopyToProto(file)
        known.add(name)
        for dependency in file.dependency:
            add(dependency)
        pool.Add(file)

    known: set[str] = set()
    try:
        for name in [*missing]:
            add(name)
        pool.FindFileByName(files(text)[-1].name)
    except (TypeError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"is not a complete set of file descriptors ({reason}); {MAKE}") from None
    return pool


def path_of(descriptor: Descriptor) -> IndexPath:
    """The position of the message in its file."""
    inside = descriptor.containing_type
    others = descriptor.file.message_types_by_name.values() if inside is None else inside.nested_types
    [index] = [at for at, message in enumerate(others) if message.full_name == descriptor.full_name]
    return (index,) if inside is None else (*path_of(inside), index)


def names(text: str) -> dict[IndexPath, str]:
    """The full names of the messages by their position, of a set of file descriptors or of the text of a `.proto` file.
    A map field has a position, as descriptors have a message for its entries, and no name. Raises ValueError."""
    try:
        last = files(text)[-1]
    except ValueError:
        declared = _declared(text)
        if not declared:
            raise ValueError("is neither a set of file descriptors nor a .proto file") from None
        return declared
    return dict(_of_messages(last.message_type, (), last.package))


def _of_messages(messages: Sequence[Any], inside: IndexPath, scope: str) -> Iterator[tuple[IndexPath, str]]:
    for index, message in enumerate(messages):
        name = f"{scope}.{message.name}" if scope else message.name
        if not message.options.map_entry:
            yield (*inside, index), name
        yield from _of_messages(message.nested_type, (*inside, index), name)


def _declared(text: str) -> dict[IndexPath, str]:
    """The messages that the text declares. Braces nest; only a message or a group opens a scope of messages, and a map
    field takes a position in it."""
    tokens = [token for token in _TOKENS.findall(text) if not token.startswith(("//", "/*"))]
    paths: dict[IndexPath, str] = {}
    package, name = "", ""
    inside: list[tuple[IndexPath, str] | None] = [((), "")]
    children: dict[IndexPath, int] = {}
    for before, token, after in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
        if token == "package" and before in ("", ";", "}"):
            package = after
        elif (token == "message" and before in ("", ";", "{", "}")) or token == "group":
            name = after
        elif token == ";":
            name = ""
        elif token == "{" or (token == "map" and after == "<"):
            outer = next(scope for scope in reversed(inside) if scope is not None)
            if token == "map":
                children[outer[0]] = children.get(outer[0], -1) + 1
            elif name:
                index = children[outer[0]] = children.get(outer[0], -1) + 1
                path = (*outer[0], index)
                full = f"{outer[1]}.{name}" if outer[1] else name
                paths[path] = full
                inside.append((path, full))
            else:
                inside.append(None)
            name = ""
        elif token == "}" and len(inside) > 1:
            inside.pop()
    return {path: f"{package}.{full}" if package else full for path, full in paths.items()}
