"""A name that a thing does not have is an AttributeError that tells the near ones, read or set."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import duetlink
from duetlink.attributes import KnownAttributes
from duetlink.errors import UnknownAttribute
from tests.conftest import DuetPair


class Lamp(KnownAttributes):
    """Has what a duet has: a property that can be read, one that can be set, a method, and a private name."""

    def __init__(self) -> None:
        self._level = 0

    @property
    def brightness(self) -> int:
        return self._level

    @brightness.setter
    def brightness(self, level: int) -> None:
        self._level = level

    @property
    def broken(self) -> int:
        return self._nothing  # type: ignore[attr-defined, no-any-return]

    def shine(self) -> None: ...


def test_reading_an_unknown_name_tells_the_near_ones() -> None:
    lamp: Any = Lamp()
    with pytest.raises(UnknownAttribute, match=r"^a Lamp has no attribute 'shin'; did you mean 'shine'"):
        lamp.shin  # noqa: B018
    with pytest.raises(AttributeError, match=r"it has brightness, broken, shine$"):
        lamp.colour  # noqa: B018
    assert getattr(lamp, "colour", "red") == "red"


def test_setting_a_name_that_cannot_be_set_is_an_error_and_changes_nothing() -> None:
    lamp: Any = Lamp()
    lamp.brightness = 3
    assert lamp.brightness == 3
    with pytest.raises(UnknownAttribute, match="did you mean 'brightness'"):
        lamp.bright = 5
    with pytest.raises(UnknownAttribute, match="'shine' of a Lamp can be read, and not set"):
        lamp.shine = 5
    with pytest.raises(UnknownAttribute, match="can be read, and not set"):
        lamp.broken = 5
    assert vars(lamp) == {"_level": 3}


def test_a_property_that_fails_tells_its_own_error_and_private_names_are_pythons() -> None:
    with pytest.raises(AttributeError, match="no attribute '_nothing'"):
        Lamp().broken  # noqa: B018
    assert copy.copy(Lamp()).brightness == pickle.loads(pickle.dumps(Lamp())).brightness == 0


def test_the_package_tells_near_names() -> None:
    with pytest.raises(AttributeError, match=r"^duetlink has no attribute 'lunch'; did you mean 'launch'"):
        duetlink.lunch  # noqa: B018
    with pytest.raises(AttributeError, match="it has Budget, Duet, DuetError"):
        duetlink.connect  # noqa: B018


def test_what_people_hold_refuses_misspelt_names(duets: DuetPair) -> None:
    owner, scientist = duets
    held: Any = owner
    with pytest.raises(UnknownAttribute, match="a Duet has no attribute 'foo'; dir"):
        held.foo = 1
    with pytest.raises(UnknownAttribute, match="did you mean 'share'"):
        held.shar  # noqa: B018
    compression: Any = owner.compression
    with pytest.raises(UnknownAttribute, match="did you mean 'rate_cap_bytes_per_s'"):
        compression.rate_cap = 5
    with pytest.raises(UnknownAttribute, match=r"it has available, codec, codecs_for.*rate_cap_bytes_per_s"):
        compression.tensor = "zip"
    compression.rate_cap_bytes_per_s = 4e7
    assert scientist.compression.rate_cap_bytes_per_s == 4e7
    owner.share([1], "ages")
    scientist.wait_object("ages", 10).request()
    request: Any = owner.wait_request(10)
    with pytest.raises(UnknownAttribute, match="did you mean 'approve'"):
        request.aprove()


def test_a_group_refuses_misspelt_names() -> None:
    with duetlink.group(size=2) as group:
        held: Any = group
        with pytest.raises(UnknownAttribute, match=r"a Group has no attribute 'all_redcue'.*'all_reduce'"):
            held.all_redcue  # noqa: B018
        with pytest.raises(UnknownAttribute, match="'size' of a Group can be read"):
            held.size = 3
        with pytest.raises(UnknownAttribute, match="did you mean 'broadcast'"):
            held.awaitable.brodcast  # noqa: B018
