"""What `check` says of expressions over the fields of a Protobuf message."""

from pathlib import Path

import pytest

from tests.unit.config.files import agent, lines, loaded
from tests.unit.schemas.protos import descriptors

SCHEMA = """
syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
enum Status { OPEN = 0; PAID = 1; }
message Item { double price = 1; Item part = 2; }
message Order {
  string customer = 1; double amount = 2; uint64 number = 3; bool paid = 4; bytes blob = 5; Status status = 6;
  optional int32 risk = 7; repeated Item items = 8; map<string, int64> labels = 9; Item best = 10;
  google.protobuf.Timestamp at = 11; google.protobuf.Struct free = 12; google.protobuf.Int64Value limit = 13;
  oneof how { string card = 14; int32 cash = 15; }
}
"""
KEYS = (
    "from: orders\nformat: protobuf\nschema: order.desc\nmessage: shop.Order\naggregate: {count: 10}\nto: {topic: t}\n"
)


def said(folder: Path, where: str) -> list[str]:
    (folder / "order.desc").write_bytes(descriptors(SCHEMA))
    file = loaded(folder, agent(f"{KEYS}where: {where}"))
    shown = lines(file.problems, folder) or [
        warning.as_warning().partition(f"{folder}/")[2] for warning in file.warnings
    ]
    return [group.partition("agents.a.where: ")[2] for group in shown]


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("customer > 3", "text"),
        ("amount == 'a'", "double"),
        ("number == 'a'", "integer"),
        ("paid > 1", "boolean"),
        ("blob > 1", "text (base64)"),
        ("at > 1", "text (a time)"),
        ("default(risk, 1) == 'a'", "integer"),
        ("default(limit, 1) == 'a'", "integer"),
        ("has(card) && card > 1", "text"),
        ("has(best.price) && best.price == 'a'", "double"),
        ("labels.x == 'a'", "integer"),
        ("totals > 1", "totals"),
    ],
)
def test_a_field_of_another_type_is_a_problem(where: str, problem: str, tmp_path: Path) -> None:
    [complaint] = said(tmp_path, where)
    assert problem in complaint
    assert "may be null" not in complaint


@pytest.mark.parametrize(
    "where",
    [
        *("customer == 'a'", "amount > 1", "number > 1", "paid", "status == 'OPEN'", "has(free.x) && free.x > 1"),
        *("has(risk) && risk > 1", "has(best.part.price)", "default(limit, 1) > 3", "labels.x > 1"),
    ],
)
def test_a_field_of_the_right_type_is_none(where: str, tmp_path: Path) -> None:
    assert said(tmp_path, where) == []


def test_a_field_with_presence_may_be_missing(tmp_path: Path) -> None:
    [problem] = said(tmp_path, "cash > 1")
    assert "cash may be null" in problem
