"""Which codecs there are; and that a codec of another package takes twenty lines."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import duetlink.testing.codecs as contract
from duetlink.data.codecs import chunk, codecs, compress, decompress, named, register, registry
from duetlink.data.codecs.base import Codec
from duetlink.data.codecs.raw import Raw
from duetlink.errors import LocalProtocolError, UnknownCodec
from duetlink.testing.faults import forget_codecs

NUMBERS = {
    "raw": 0,
    "zlib": 1,
    "lzma": 2,
    "zstd": 3,
    "lz4": 4,
    "blosc2": 5,
    "pcodec": 16,
    "planes": 17,
    "bitshuffle": 18,
    "bytedelta": 19,
    "sparse": 20,
    "delta": 21,
    "frame_of_reference": 22,
    "decimals": 23,
}


@pytest.fixture(autouse=True)
def _registry_as_it_was() -> Iterator[None]:
    yield
    forget_codecs()


def third_party() -> dict[str, Any]:
    """The codec and its test that the contract's documentation shows, run as they stand there."""
    shown = contract.__doc__.partition("whole:\n")[2].partition("\nIt is used after")[0]
    lines = textwrap.dedent(shown)
    names: dict[str, Any] = {"__name__": "the_package"}
    assert len([line for line in lines.splitlines() if line.strip()]) <= 20
    exec(lines, names)
    return names


def test_numbers_are_for_ever() -> None:
    here = {codec.name: codec.number for codec in codecs()}
    assert {name: number for name, number in here.items() if number < 32} == {
        name: number for name, number in NUMBERS.items() if name in here
    }
    assert set(NUMBERS) - set(here) <= {"blosc2", "bitshuffle", "bytedelta"}


def test_a_third_party_codec_registers_and_round_trips() -> None:
    codec = third_party()["Inverted"]()
    register(codec)
    assert named("inverted") is codec
    array = np.arange(12.0).reshape(3, 4)
    back, header = chunk.decode(chunk.encode(array, codec))
    assert header.codec == 0x8001
    np.testing.assert_array_equal(back, array)
    assert decompress(compress(b"abc" * 1000, "inverted")) == b"abc" * 1000


class TestInverted(contract.CodecContract):
    codec = third_party()["Inverted"]()


def test_a_third_party_codec_is_found_by_its_entry_point(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = [
        SimpleNamespace(
            name="inverted", value="the_package:Inverted", load=lambda: third_party()["Inverted"]
        ),
        SimpleNamespace(name="gone", value="gone:Gone", load=lambda: importlib.import_module("gone")),
        SimpleNamespace(name="no codec", value="builtins:dict", load=lambda: dict),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: found)
    forget_codecs()
    assert named("inverted").number == 0x8001
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        "codec gone of gone:Gone cannot be used",
        "codec no codec of builtins:dict cannot be used",
    ]


@pytest.mark.parametrize(("number", "name"), [(3, "another"), (0x8002, "zstd")])
def test_a_number_or_name_used_twice_is_refused(number: int, name: str) -> None:
    twice = type("Twice", (Raw,), {"number": number, "name": name})()
    with pytest.raises(LocalProtocolError, match="'zstd'"):
        register(twice)
    assert isinstance(named("zstd"), Codec)
    assert twice not in codecs()


def test_an_unknown_codec_says_which_there_are() -> None:
    with pytest.raises(UnknownCodec, match="raw, zlib, lzma"):
        named("gzip")
    with pytest.raises(UnknownCodec, match="raw, zlib, lzma"):
        registry.by_number(999)


def test_without_the_optional_library_its_codecs_are_not_there() -> None:
    program = (
        "import sys, importlib.util as util\n"
        "real = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'blosc2' else real(name, *rest)\n"
        "from duetlink.data.codecs import codecs\n"
        "print(*sorted(codec.name for codec in codecs() if codec.number < 32))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == sorted(set(NUMBERS) - {"blosc2", "bitshuffle", "bytedelta"})
