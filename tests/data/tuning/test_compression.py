"""The shared configuration: what it takes, what it refuses, and how it travels."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.data.codecs.registry import named
from duetlink.data.tuning import Compression
from duetlink.data.values.lossy import LossyCodec
from duetlink.errors import RemoteProtocolError, SettingError

ROLES = ("bytes", "tensor", "gradient")
names = st.sampled_from(["auto", "raw", "zstd", "theirs-2"])
levels = st.none() | st.integers(-1000, 1000)
compressions = st.builds(
    Compression,
    mode=st.sampled_from(["auto", "manual"]),
    codec=st.fixed_dictionaries(dict.fromkeys(ROLES, names)),
    level=st.fixed_dictionaries(dict.fromkeys(ROLES, levels)),
    lossless_only=st.booleans(),
    max_relative_error=st.none() | st.floats(1e-9, 1.0),
    rate_cap_bytes_per_s=st.none() | st.floats(1e4, 1e12),
    objective=st.sampled_from(["throughput", "latency", "bytes", "cpu"]),
    pin=st.booleans(),
    version=st.integers(0, 1 << 50),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(compressions)
def test_it_comes_back_through_json(compression: Compression) -> None:
    assert Compression.from_wire(json.loads(json.dumps(compression.to_wire()))) == compression


@given(json_values)
def test_anything_else_is_a_typed_error(wire: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        Compression.from_wire(wire)


@given(compressions, st.sampled_from(sorted(Compression().to_wire())), json_values)
def test_a_field_of_any_value_is_taken_or_refused(compression: Compression, name: str, value: Any) -> None:
    wire = {**compression.to_wire(), name: value}
    try:
        found = Compression.from_wire(wire)
    except RemoteProtocolError:
        return
    assert found.to_wire() == wire


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mode": "fast"}, "mode must be one of auto, manual; got 'fast'"),
        ({"objective": None}, "objective must be one of throughput, latency, bytes, cpu; got None"),
        ({"pin": 1}, "pin must be True or False, got 1"),
        ({"rate_cap_bytes_per_s": 0}, "rate_cap_bytes_per_s must be None or at least 10000"),
        ({"rate_cap_bytes_per_s": float("nan")}, "rate_cap_bytes_per_s must be None or at least"),
        ({"max_relative_error": True}, "max_relative_error must be None or above 0"),
        ({"codec": {"tensors": "zstd"}}, "codec must map bytes, tensor, gradient to values"),
        ({"codec": {"tensor": "z" * 100}}, "the codec for tensor must be a name of at most 64 characters"),
        ({"level": {"tensor": 1.5}}, "the level for tensor must be a whole number or None, got 1.5"),
        ({"speed": 9}, "compression has no speed; it has mode, codec,"),
        ({"self": 1}, "compression has no self; it has mode, codec,"),
    ],
    ids=str,
)
def test_bad_values_are_refused_in_words(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        Compression().changed(**fields)
    assert str(caught.value).startswith(message)


def test_changed_keeps_what_is_not_named() -> None:
    first = Compression().changed(codec={"tensor": "zstd"}, version=4)
    second = first.changed(codec={"bytes": "raw"})
    assert dict(second.codec) == {"bytes": "raw", "tensor": "zstd", "gradient": "auto"}
    assert second.version == 4


@pytest.mark.parametrize(
    ("compression", "message"),
    [
        (Compression(codec={"tensor": "zstd"}), "codec 'zstd' for tensor is not available on both sides"),
        (
            Compression(codec={"bytes": "raw"}, level={"bytes": 3}),
            "codec 'raw' has levels 0 to 0, not 3",
        ),
        (Compression(level={"bytes": 3}), "level 3 for bytes is set without a codec"),
    ],
)
def test_validate_says_what_can_be_used(compression: Compression, message: str) -> None:
    with pytest.raises(SettingError) as caught:
        compression.validate({"raw"})
    assert str(caught.value).startswith(message)


def test_validate_takes_what_both_have() -> None:
    Compression().validate(set())
    Compression(mode="manual", codec={"tensor": "zstd"}, level={"tensor": 3}).validate({"zstd"})


@pytest.mark.parametrize(
    ("name", "most", "allowed"),
    [
        ("bfloat16", 0.004, True),  # 2^-8 of an item
        ("bfloat16", 0.003, False),
        ("block8", 0.004, True),  # half of 1/127 of a block's largest
        ("block8", 0.003, False),
        ("natural", 1.0, True),
        ("natural", 0.9, False),
        ("random_subset", 1.0, False),  # items may be left out
    ],
)
def test_what_is_configured_and_what_is_marked_are_bounded_alike(
    name: str, most: float, allowed: bool
) -> None:
    compression = Compression(codec={"gradient": name}, max_relative_error=most)
    why = f"^{name}: .*max_relative_error"
    refused = nullcontext() if allowed else pytest.raises(SettingError, match=why)
    with refused:
        compression.validate({name})
    marked = LossyCodec(named(name))
    with refused:
        compression.check_bound(marked.words, marked.bound)


def test_lossless_only_forbids_what_is_configured_and_what_is_marked() -> None:
    compression = Compression(codec={"gradient": "bfloat16"}, lossless_only=True)
    with pytest.raises(SettingError, match=r"^bfloat16: .*lossless_only is set"):
        compression.validate({"bfloat16"})
    marked = LossyCodec(named("bfloat16"))
    with pytest.raises(SettingError, match=r"^bfloat16: .*lossless_only is set"):
        compression.check_bound(marked.words, marked.bound)


def test_the_roles_cannot_be_altered_in_place() -> None:
    with pytest.raises(TypeError):
        Compression().codec["tensor"] = "zstd"  # type: ignore[index]
