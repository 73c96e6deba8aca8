"""The codec: everything the wire carries comes back as it was, with its marks."""

from typing import Any

import pytest
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st
from pulumi.runtime import rpc

from mockgcp.frontends.pulumi.values import (
    UNKNOWN,
    Secret,
    UnsupportedValueError,
    decode,
    encode,
    has_secret,
    has_unknown,
    keep_secrets,
    reveal,
    to_struct,
)

PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**53), max_value=2**53)
    | st.floats(allow_nan=False).filter(lambda number: not number.is_integer())
    | st.text()
)
LEAVES = PLAIN | st.just(UNKNOWN) | PLAIN.map(Secret) | st.lists(st.integers(0, 9)).map(Secret)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)


@given(st.dictionaries(st.text(), VALUES))
def test_an_object_survives_the_wire(value: dict[str, Any]) -> None:
    assert decode(to_struct(value)) == value
    assert decode(encode(value)) == value


@given(st.dictionaries(st.text(), VALUES))
def test_revealed_values_hold_no_secret_and_lose_nothing_else(value: dict[str, Any]) -> None:
    bare = reveal(value)
    assert not has_secret(bare)
    assert has_unknown(bare) == has_unknown(value)
    assert reveal(bare) == bare


def test_whole_numbers_become_integers_and_booleans_stay() -> None:
    decoded = decode(to_struct({"count": 3, "ratio": 0.5, "on": True, "text": "3"}))
    assert decoded == {"count": 3, "ratio": 0.5, "on": True, "text": "3"}
    assert [type(decoded[key]) for key in ("count", "ratio", "on", "text")] == [int, float, bool, str]
    assert type(decode(3.0)) is int


@pytest.mark.parametrize(
    "mark",
    [
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    ],
)
def test_every_kind_of_unknown_is_one(mark: str) -> None:
    assert decode({"deep": [mark]}) == {"deep": [UNKNOWN]}


def test_the_mock_monitors_unknown_and_tuples_are_taken() -> None:
    class Unknown:
        pass

    assert decode(Unknown()) is UNKNOWN
    assert decode((1.0, "a")) == [1, "a"]


def marked(signature: str, **rest: Any) -> dict[str, Any]:
    return {rpc._special_sig_key: signature, **rest}


def test_secrets_outputs_and_resource_references() -> None:
    assert decode(marked(rpc._special_secret_sig, value="hunter2")) == Secret("hunter2")
    assert decode(marked(rpc._special_output_value_sig, value="v")) == "v"
    assert decode(marked(rpc._special_output_value_sig, value="v", secret=True)) == Secret("v")
    assert decode(marked(rpc._special_output_value_sig)) is UNKNOWN
    assert decode(marked(rpc._special_resource_sig, urn="urn:x", id="b-1")) == "b-1"
    assert decode(marked(rpc._special_resource_sig, urn="urn:x")) is UNKNOWN


def test_a_secret_never_shows_itself() -> None:
    assert "hunter2" not in repr({"token": Secret("hunter2")})


@pytest.mark.parametrize("signature", [rpc._special_asset_sig, rpc._special_archive_sig])
def test_assets_and_archives_are_refused(signature: str) -> None:
    with pytest.raises(UnsupportedValueError, match="no assets or archives"):
        decode(marked(signature, text="x"))


def test_what_is_no_json_is_refused_by_its_type() -> None:
    with pytest.raises(UnsupportedValueError, match="no complex as a property value"):
        decode({"z": 1j})


def test_a_struct_and_its_values_decode_alike() -> None:
    struct = to_struct({"a": [1, {"b": None}]})
    assert isinstance(struct, struct_pb2.Struct)
    assert decode(struct.fields["a"]) == [1, {"b": None}]


def test_outputs_of_secret_inputs_are_secret_once() -> None:
    kept = keep_secrets(
        {"a": {"deep": [Secret("x")]}, "b": Secret("y")}, {"a": {"deep": ["x"]}, "b": Secret("y"), "c": 1}
    )
    assert kept == {"a": Secret({"deep": ["x"]}), "b": Secret("y"), "c": 1}
