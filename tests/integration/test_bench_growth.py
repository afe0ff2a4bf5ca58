"""The growth bench: one run of each axis is right, a wrong output is noticed, slopes, and the picture."""

import xml.etree.ElementTree as ElementTree
from collections import Counter

import pytest

from tests.bench.chart import Panel, Series, chart
from tests.bench.growth import inputs, stored
from tests.bench.growth.__main__ import arguments, document, measured
from tests.bench.growth.axes import AXES
from tests.bench.growth.drawing import picture
from tests.bench.growth.slopes import slope, slopes, steepest
from tests.bench.growth.trials import Cost

PARTS = {"svg", "title", "style", "rect", "g", "text", "path", "circle"}
COST = Cost(2.0, 80.0, {}, [])


POINTS = {"keys": (20, 100), "partitions": (6,), "agents": (2,), "size": (5000,), "routes": (3,), "results": (3,)}


@pytest.mark.parametrize("name", AXES)
def test_a_run_of_each_axis_is_found_right(name, kafka, capsys, monkeypatch):
    monkeypatch.setitem(AXES, name, AXES[name]._replace(points=POINTS.get(name, (3000,))))
    options = arguments(["--axes", name, "--stores", "none", "--rounds", "1", "--records", "3000", "--most", "5000"])
    figures = {}
    assert list(measured(kafka, options, figures)) == []
    assert all(cost.micros > 0 for many in figures[name].values() for cost in many)
    assert f"### {AXES[name].title}" in capsys.readouterr().out


def test_the_size_of_a_store_is_measured_on_the_way(kafka, ns):
    source = inputs.folded(kafka, ns, 20_000, 20)
    costs = stored.costs(kafka, "sqlite", source)
    assert [*costs] == [*range(2000, 20_001, 2000)]
    assert costs[20_000].problems == []
    assert max(cost.more["MB"] for cost in costs.values()) > 0.01


def test_a_wrong_or_missing_output_is_noticed():
    wanted = Counter({("k1", 2, 3, 2, 0): 1, ("k2", 1, 0, 0, 7): 2})
    right = [b'{"key":"k1","n":2,"sum":3,"max":2}', b'{"key":"k2","amount":7}', b'{"key":"k2","amount":7}']
    assert inputs.difference(right, wanted) == []
    assert inputs.difference(right[:2], wanted) == ["0 outputs are wrong or too many, 1 are missing"]
    assert inputs.difference([*right[:2], right[0]], wanted) == ["1 outputs are wrong or too many, 1 are missing"]


def test_a_slope_of_one_is_proportional_and_the_steepest_step_is_named():
    assert slope([(1, 3), (10, 30), (100, 300)]) == pytest.approx(1)
    assert slope([(1, 5), (10, 5), (100, 5)]) == pytest.approx(0)
    points = [(1, 1), (10, 1), (100, 1000)]
    assert steepest(points)[1:] == ((10, 1), (100, 1000))
    assert slopes(points) == "Slope 1.50; the steepest step, from 10 to 100, has 3.00."


def test_the_picture_has_a_panel_for_each_axis_and_no_script():
    figures = {"keys": {"1000": [COST], "10000": [COST]}, "routes": {"1": [COST], "100": [COST]}}
    figures["sqlite"] = {"1000": [COST._replace(more={"MB": 1.5})], "2000": [COST._replace(more={"MB": 2.5})]}
    root = ElementTree.fromstring(picture(document(figures)))
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert {"open keys: slope 0.00", "routes: slope 0.00", "size of the store after so many records"} <= {*texts}
    assert {element.tag.partition("}")[2] for element in root.iter()} == PARTS


def test_larger_values_are_further_up_and_to_the_right():
    root = ElementTree.fromstring(chart("c", [Panel("p", "u", [Series("s", [(1, 1), (10, 50), (100, 900)])])]))
    dots = [
        (float(element.attrib["cx"]), float(element.attrib["cy"]))
        for element in root.iter()
        if element.tag.endswith("circle")
    ]
    assert dots == sorted(dots)
    assert [y for _, y in dots] == sorted((y for _, y in dots), reverse=True)
