"""Protobuf schemas in the form of a registry: each file by itself, as a descriptor or as text, with references to the
files that it imports. The subject of a referenced file is the file's name, as in confluent-kafka's serializer."""

from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable
from functools import partial
from typing import Any

FAILED = 500
BUILTIN = ("google/protobuf/", "google/type/", "confluent/")
"""Every reader has these files."""
UNNAMED = "unnamed.proto"
"""The name of a file whose descriptor has none, as Karapace returns it. A set of file descriptors needs names."""


def bundled(client: Any, schema: Any) -> str:
    """The file with all files that it refers to, in the form of `sluicegate.schemas.protobuf_schema`. The text of a
    `.proto` file stays as it is."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    from sluicegate.schemas.protobuf_schema import descriptor_set

    files: dict[str, FileDescriptorProto] = {}

    def add(registered: Any, name: str) -> None:
        file = FileDescriptorProto.FromString(b64decode(registered.schema_str, validate=True))
        file.name = name or file.name or UNNAMED
        for message in file.message_type:
            _restore_presence(message, file.syntax == "proto3")
        for reference in registered.references or ():
            if reference.name not in files:
                version = partial(client.get_version, reference.subject, reference.version, True)
                add(descriptor(version).schema, reference.name)
        files[file.name] = file

    try:
        add(schema, "")
    except (Error, ValueError, DecodeError):
        return str(schema.schema_str)
    return descriptor_set([*files.values()])


def _restore_presence(message: Any, proto3: bool) -> None:
    """Gives each `optional` field of proto3 the oneof of its own that descriptors have, and Karapace leaves out."""
    for field in message.field:
        if field.proto3_optional and not field.HasField("oneof_index"):
            field.proto3_optional = proto3
            if proto3:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")
    for nested in message.nested_type:
        _restore_presence(nested, proto3)


def descriptor(ask: Callable[[str | None], Any]) -> Any:
    """Asks for a schema in the format of a descriptor. A registry may return the text of the `.proto` file all the
    same. Apicurio Registry 3 answers with HTTP 500 for a schema that was registered as a descriptor, and returns it
    when no format is asked for."""
    from confluent_kafka.schema_registry import SchemaRegistryError

    try:
        return ask("serialized")
    except SchemaRegistryError as error:
        if error.http_status_code != FAILED:
            raise
        return ask(None)


def split(client: Any, text: str, register: bool) -> Any:
    """The last file of the set, with references to its imports. The imported files are registered, or looked up."""
    from confluent_kafka.schema_registry import Schema, SchemaReference

    from sluicegate.schemas.protobuf_schema import files

    known = {file.name: file for file in files(text)}

    def registered(name: str) -> Any:
        references = []
        for other in [dependency for dependency in known[name].dependency if not dependency.startswith(BUILTIN)]:
            schema = registered(other)
            if register:
                client.register_schema(other, schema)
            references.append(SchemaReference(other, other, client.lookup_schema(other, schema).version))
        return Schema(b64encode(known[name].SerializeToString(deterministic=True)).decode(), "PROTOBUF", references)

    return registered(files(text)[-1].name)
