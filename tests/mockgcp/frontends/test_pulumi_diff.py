"""What counts as a change, under which path, and which changes replace."""

import pytest

from mockgcp.frontends.pulumi.diff import Change, compare
from mockgcp.frontends.pulumi.values import UNKNOWN, Secret, Value

REPLACE = frozenset({"location", "spec.items.key", "whole"})
COMPUTED = frozenset({"chosen", "spec.chosen", "spec.items.limits"})


def changes(old: dict[str, Value], new: dict[str, Value]) -> dict[str, tuple[str, bool]]:
    found = compare(old, new, replace_on=REPLACE, computed=COMPUTED)
    return {change.path: (change.action, change.replace) for change in found}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 2}, {"a": ("update", False)}),
        ({}, {"a": 1}, {"a": ("add", False)}),
        ({"a": 1}, {}, {"a": ("delete", False)}),
        ({"a": 1}, {"a": None}, {"a": ("delete", False)}),
        ({"a": None}, {}, {}),
        ({}, {"a": False, "b": 0, "c": []}, {}),
        ({"a": False, "b": 0, "c": []}, {}, {}),
        ({"labels": {}}, {"labels": {"a": ""}}, {"labels.a": ("add", False)}),
        ({"a": False}, {"a": True}, {"a": ("update", False)}),
        ({"location": "x"}, {"location": "y"}, {"location": ("update", True)}),
        ({"whole": {"deep": 1}}, {"whole": {"deep": 2}}, {"whole.deep": ("update", True)}),
        ({"spec": {"items": [{"key": 1}]}}, {"spec": {"items": [{"key": 2}]}}, {"spec.items[0].key": ("update", True)}),
        ({"whole": [1]}, {"whole": [1, 2]}, {"whole[1]": ("add", True)}),
        ({"spec": {"items": []}}, {"spec": {"items": [{"key": 1}]}}, {"spec.items[0]": ("add", True)}),
        ({"spec": {"items": [{"key": 1}]}}, {}, {"spec": ("delete", True)}),
        ({"spec": {"items": []}}, {"spec": {"items": [{"key": None, "other": 1}]}}, {"spec.items[0]": ("add", False)}),
        ({"l": [1, 2, 3]}, {"l": [1, 9]}, {"l[1]": ("update", False), "l[2]": ("delete", False)}),
        ({"m": {"a.b/c": "x"}}, {"m": {"a.b/c": "y"}}, {'m["a.b/c"]': ("update", False)}),
        ({"a": [1]}, {"a": {"b": 1}}, {"a": ("update", False)}),
        ({"a": 1}, {"a": UNKNOWN}, {"a": ("update", False)}),
        ({"location": "x"}, {"location": UNKNOWN}, {"location": ("update", True)}),
        ({"a": Secret("x")}, {"a": "x"}, {}),
        ({"a": Secret("x")}, {"a": Secret("y")}, {"a": ("update", False)}),
        ({"__defaults": ["name"]}, {"__defaults": []}, {}),
        ({"spec": {"__defaults": ["name"]}}, {"spec": {}}, {}),
    ],
)
def test_changes(old: dict[str, Value], new: dict[str, Value], expected: dict[str, tuple[str, bool]]) -> None:
    assert changes(old, new) == expected


def test_a_computed_property_that_is_left_out_keeps_what_the_server_chose() -> None:
    assert changes({"chosen": 1, "spec": {"chosen": 1}}, {"spec": {}}) == {}
    assert changes({"chosen": 1}, {"chosen": 2}) == {"chosen": ("update", False)}


def test_a_key_left_out_of_a_computed_map_is_a_change_wherever_the_map_is() -> None:
    limits = {"limits": {"cpu": "8", "memory": "32Gi"}}
    fewer = {"limits": {"cpu": "8"}}
    assert changes({"spec": {"items": [limits]}}, {"spec": {"items": [fewer]}}) == {
        "spec.items[0].limits.memory": ("delete", False)
    }
    assert changes({"chosen": {"a": 1, "b": 2}}, {"chosen": {"a": 1}}) == {"chosen.b": ("delete", False)}
    assert changes({"spec": {"items": [limits]}}, {"spec": {"items": [{}]}}) == {}


def test_paths_come_in_order() -> None:
    found = compare({"b": 1, "a": 1}, {"b": 2, "a": 2}, replace_on=frozenset(), computed=frozenset())
    assert found == [Change("a", "update", False), Change("b", "update", False)]
