"""Functions of an App: the types of their parameters choose the decoding, and they are found without an import."""

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from sluicegate import App, ConfigurationError, Context, Schedule, Send, TestDriver
from sluicegate.streams import importing
from sluicegate.streams.app import application
from sluicegate.streams.handlers import functions
from sluicegate.streams.importing import loaded


class Order(msgspec.Struct):
    customer: str
    amount: float


@dataclasses.dataclass
class OrderClass:
    customer: str
    amount: float


class OrderDict(TypedDict):
    customer: str
    amount: float


class OrderModel(pydantic.BaseModel):
    customer: str
    amount: float


TYPES: tuple[Any, ...] = (Order, OrderClass, OrderDict, OrderModel)
typed = pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
seen: list[Any] = []


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    seen.clear()


def made(function: Callable[..., Any], **more: Any) -> App:
    app = App("shop", store="memory://", kafka={"bootstrap.servers": "localhost:9092"})
    app.agent("shop", from_="orders", to="out", dead_letters="dead", **more)(function)
    return app


def of(kind: Any) -> Callable[..., None]:
    def one(order: kind, send: Send) -> None:
        seen.append(order)

    return one


def list_of(kind: Any) -> Callable[..., None]:
    def many(orders: list[kind], send: Send) -> None:  # type: ignore[valid-type]
        seen.append(orders)

    return many


def played(app: App, *amounts: Any) -> list[tuple[str, str]]:
    """Reason and stage of each dead letter."""
    with app.test_driver() as driver:
        for amount in amounts:
            driver.send("orders", {"customer": "ann", "amount": amount}, key="ann")
        return reasons(driver)


def reasons(driver: TestDriver) -> list[tuple[str, str]]:
    return [
        (letter.headers["sluicegate-dead-reason"], letter.headers["sluicegate-dead-stage"])
        for letter in driver.dead_letters()
    ]


@typed
def test_a_message_is_decoded_into_the_type_of_the_first_parameter(kind: Any) -> None:
    assert played(made(of(kind)), 1.5, "much", 3) == [("undecodable", "decode")]
    assert seen == [kind(customer="ann", amount=1.5), kind(customer="ann", amount=3)]


@typed
def test_the_messages_of_a_group_are_decoded_one_by_one(kind: Any) -> None:
    assert played(made(list_of(kind), count=3), 1.5, "much", 3) == [("undecodable", "decode")]
    assert seen == [[kind(customer="ann", amount=1.5), kind(customer="ann", amount=3)]]


@typed
@pytest.mark.parametrize("one", [True, False], ids=["message", "group"])
def test_a_missing_field_has_a_reason_of_its_own(kind: Any, one: bool) -> None:
    app = made(of(kind)) if one else made(list_of(kind), count=1)
    with app.test_driver() as driver:
        driver.send("orders", {"customer": "ann"}, key="ann")
        (letter,) = driver.dead_letters()
    assert (letter.reason, letter.headers["sluicegate-dead-stage"]) == ("missing-field", "decode")
    assert "amount" in letter.headers["sluicegate-dead-error"]
    assert seen == []


@pytest.mark.parametrize("how", [{"session": True}, {"concurrency": 2}], ids=["session", "slow"])
def test_a_misfit_of_a_group_is_undecodable_however_the_function_is_called(how: dict[str, Any]) -> None:
    assert played(made(list_of(Order), count=2, **how), "much", 2) == [("undecodable", "decode")]
    assert seen == [[Order("ann", 2)]]


def test_without_the_conversion_a_misfit_reaches_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the tests above."""
    monkeypatch.setattr(functions, "converter", lambda kind: lambda value: value)
    assert played(made(list_of(Order), count=2), "much", 2) == []
    assert [order["amount"] for order in seen[0]] == ["much", 2]


def test_a_computed_field_goes_to_the_parameter_of_its_name_in_its_type() -> None:
    def spend(spent: int, orders: list[Order], key: str) -> None:
        seen.append((spent, orders, key))

    compute = {"spent": {"sum": "amount"}, "orders": "collect"}
    assert played(made(spend, count=2, compute=compute), 1, 2) == []
    assert seen == [(3, [Order("ann", 1), Order("ann", 2)], "ann")]


def test_async_functions_are_awaited_and_called_directly() -> None:
    async def greet(order: Order, send: Send) -> None:
        send({"hello": order.customer})

    app = made(greet)
    assert app.agents["shop"].function is greet
    with app.test_driver() as driver:
        driver.send("orders", {"customer": "ann", "amount": 1}, key="ann")
        assert [output.value for output in driver.read("out")] == [{"hello": "ann"}]


def test_a_window_gives_its_messages() -> None:
    app = made(list_of(Order), window={"tumbling": "1m", "idle": "1m"})
    with app.test_driver() as driver:
        for amount in (1, 2):
            driver.send("orders", {"customer": "ann", "amount": amount}, key="ann")
        driver.advance("5m")
    assert seen == [[Order("ann", 1), Order("ann", 2)]]


class NoType:
    pass


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (of(NoType), "write a msgspec.Struct, a dataclass, a TypedDict or a model of pydantic"),
        (list_of(NoType), "write a msgspec.Struct, a dataclass, a TypedDict or a model of pydantic"),
    ],
)
def test_a_type_that_cannot_be_decoded_is_refused(function: Callable[..., Any], why: str) -> None:
    more = {"count": 2} if function.__name__ == "many" else {}
    with pytest.raises(ConfigurationError, match=why):
        made(function, **more).check()


MODULE = """
from sluicegate import App

app = App("shop", store="memory://", kafka={"bootstrap.servers": "localhost:9092"})
replaced = []


@replaced.append
@app.agent(from_="orders", to="out")
def handle(value, send): ...


app.run()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "shop_of_workers.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("shop_of_workers", None)
    importing._defined.pop("shop_of_workers:handle", None)


def test_a_worker_imports_the_module_and_run_returns_in_it(module: None) -> None:
    """The function is found although another decorator left another object under its name."""
    function = loaded("shop_of_workers:handle")
    shop = sys.modules["shop_of_workers"]
    assert (shop.handle, shop.replaced) == (None, [function])  # type: ignore[attr-defined]
    assert function.__name__ == "handle"


def test_a_run_that_does_not_know_that_a_worker_imports_it_starts_once_more(
    module: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of the test above."""
    started = []
    monkeypatch.setattr(application, "importing", lambda: False)
    monkeypatch.setattr(App, "_run", lambda *_: started.append("run") or 0)
    loaded("shop_of_workers:handle")
    assert started == ["run"]


def test_an_object_that_the_process_defined_is_found_before_the_module(module: None) -> None:
    """A twin: without the definition, the path leads to what the other decorator left."""
    loaded("shop_of_workers:handle")
    del importing._defined["shop_of_workers:handle"]
    assert loaded("shop_of_workers:handle") is None


@pytest.mark.parametrize(("kind", "method"), [(Send, Context.send), (Schedule, Context.schedule)])
def test_the_types_for_annotations_are_those_of_the_context(kind: Any, method: Any) -> None:
    assert str(inspect.signature(kind.__call__)) == str(inspect.signature(method))
