"""Protobuf schemas for tests: `.proto` texts, compiled by protoc itself."""

import base64
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from sluicegate.schemas import Codec, SchemaOptions, codec

ORDER = """
syntax = "proto3";
package shop;
// message Hidden {}
message Order {
  string customer = 1;
  double amount = 2;
  int64 id = 3;
  optional string note = 4;
}
message Box { message Inner { int32 x = 1; } Inner inner = 1; }
"""


@cache
def _compiled(files: tuple[tuple[str, str], ...]) -> bytes:
    import grpc_tools
    from grpc_tools import protoc

    with TemporaryDirectory() as folder:
        for name, text in files:
            Path(folder, name).write_text(text)
        out, own = Path(folder, "out.desc"), Path(grpc_tools.__file__).with_name("_proto")
        words = ("protoc", f"-I{folder}", f"-I{own}", "--include_imports", f"--descriptor_set_out={out}")
        assert protoc.main([*words, files[-1][0]]) == 0
        return out.read_bytes()


def descriptors(text: str = ORDER, **imports: str) -> bytes:
    """The set of file descriptors of `main.proto`; `imports` are the texts of `NAME.proto`."""
    return _compiled((*((f"{name}.proto", text) for name, text in imports.items()), ("main.proto", text)))


def encoded(text: str = ORDER, **imports: str) -> str:
    return base64.b64encode(descriptors(text, **imports)).decode()


def kind(name: str, text: str = ORDER, **imports: str) -> Any:
    """The class that protobuf's own library makes of the message."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptors(text, **imports)).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))


def by(message: str, text: str = ORDER, imports: Mapping[str, str] | None = None, **wanted: Any) -> Codec:
    return codec(
        "protobuf", SchemaOptions(encoded(text, **(imports or {})), kind="PROTOBUF", message=message, **wanted)
    )
