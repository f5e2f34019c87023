"""The compression settings that both sides of a link share.

The values of `objective`:

"throughput"  the most bytes of arrays per second, once a transfer runs;
"latency"     the least time until this one object has arrived, its first chunk included;
"bytes"       the fewest bytes on the link, by codecs that are fast, or slow ones that a slow link hides;
"cpu"         the least processor time on both sides, among choices at most 5 % slower than sending raw.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from duetlink.data.codecs.base import BYTES, GRADIENT, TENSOR, Bound, Codec
from duetlink.data.codecs.element import FLOAT32, UINT8, Element
from duetlink.data.codecs.registry import named
from duetlink.errors import RemoteProtocolError, SettingError

ROLES = (BYTES, TENSOR, GRADIENT)
MODES = ("auto", "manual")
THROUGHPUT, LATENCY, FEWEST_BYTES, LEAST_CPU = OBJECTIVES = ("throughput", "latency", "bytes", "cpu")
AUTO = "auto"  # in `codec`: the tuner chooses for this role

_MAX_NAME = 64
_NAME = re.compile(rf"[ -~]{{1,{_MAX_NAME}}}")  # ASCII that can be printed
_MAX_LEVEL = 1000
_MAX_VERSION = (1 << 53) - 1  # exact in every reader of JSON
_MAX_RATE = 1e15
_MIN_RATE = 1e4  # a path with a lower cap would look stuck


def role_of(element: Element) -> str:
    return BYTES if element is UINT8 else TENSOR


def _for_all_roles(value: str | None) -> Any:
    return dataclasses.field(default_factory=lambda: MappingProxyType(dict.fromkeys(ROLES, value)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """The compression settings that both sides share.

    Codecs apply by role: a block of `uint8` items is "bytes", any other block a "tensor"; "gradient" is an
    object that its sender marked with `lossy="gradient"`. In mode "manual" the codec named for a role is
    used, at `level` or its default level; the name "auto" leaves that role to the tuner, as mode "auto" does
    for all roles. A gradient is then compressed by top-k.

    Codecs for bytes and tensors are always lossless. `lossless_only` and `max_relative_error` limit the lossy
    marks that a sender may use. `pin` keeps the plan in force.

    Raises:
        SettingError: a field has the wrong type or range.
    """

    mode: str = "auto"
    codec: Mapping[str, str] = _for_all_roles(AUTO)
    level: Mapping[str, int | None] = _for_all_roles(None)
    lossless_only: bool = False
    max_relative_error: float | None = None
    rate_cap_bytes_per_s: float | None = None
    objective: str = THROUGHPUT
    pin: bool = False
    version: int = 0

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, MODES)
        _one_of("objective", self.objective, OBJECTIVES)
        for name in ("lossless_only", "pin"):
            if not isinstance(getattr(self, name), bool):
                raise SettingError(f"{name} must be True or False, got {_shown(getattr(self, name))}")
        if not _is_int(self.version) or not 0 <= self.version <= _MAX_VERSION:
            raise SettingError(f"version must be a whole number from 0 on, got {_shown(self.version)}")
        object.__setattr__(self, "codec", _complete("codec", self.codec, AUTO))
        object.__setattr__(self, "level", _complete("level", self.level, None))
        for role in ROLES:
            _check_name(role, self.codec[role])
            _check_level(role, self.level[role])
        _check_number("max_relative_error", self.max_relative_error, 1.0)
        _check_number("rate_cap_bytes_per_s", self.rate_cap_bytes_per_s, _MAX_RATE, _MIN_RATE)

    def validate(self, available: Collection[str]) -> None:
        """Check every named codec and level; `available` are the codecs that both sides have.

        Raises:
            SettingError: a codec or level cannot be used; the message names those that can.
        """
        for role in ROLES:
            name, level = self.codec[role], self.level[role]
            if name == AUTO:
                if level is not None:
                    raise SettingError(
                        f"level {level} for {role} is set without a codec; name one in codec[{role!r}],"
                        " or set it to None"
                    )
                continue
            if name not in available:
                raise SettingError(
                    f"codec {name!r} for {role} is not available on both sides; choose from"
                    f" {', '.join(sorted(available))}, or {AUTO!r}"
                )
            codec = named(name)
            _check_codec(role, codec, level)
            if not codec.lossless:
                bound = codec.bound(FLOAT32, codec.level if level is None else level)
                self.check_bound(f"{name}: {bound}", bound)

    def check_bound(self, words: str, bound: Bound) -> None:
        """Check the error `bound` of a lossy codec against the settings; `words` describe it in the message.

        Raises:
            SettingError: lossless_only is set, or the bound exceeds max_relative_error.
        """
        if self.lossless_only:
            raise SettingError(
                f"{words}: duet.compression.lossless_only is set; unset it, or let nothing change on the way"
            )
        most = self.max_relative_error
        if most is not None and max(bound.relative, bound.block) > most:
            raise SettingError(
                f"{words}: that is more than duet.compression.max_relative_error, {most:g}; allow more, or"
                " choose another codec"
            )

    def changed(self, /, **fields: object) -> Compression:
        """Return a copy with other fields; `codec` and `level` need to name only the roles that change.

        Raises:
            SettingError: the field does not exist, or cannot have that value.
        """
        known = [field.name for field in dataclasses.fields(self)]
        if unknown := sorted(set(fields) - set(known)):
            raise SettingError(f"compression has no {', '.join(unknown)}; it has {', '.join(known)}")
        for name in ("codec", "level"):
            if isinstance(given := fields.get(name), Mapping):
                fields[name] = {**getattr(self, name), **given}
        return dataclasses.replace(self, **cast(dict[str, Any], fields))

    def to_wire(self) -> dict[str, Any]:
        """Return the fields as values that JSON can hold."""
        wire: dict[str, Any] = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**wire, "codec": dict(self.codec), "level": dict(self.level)}

    @classmethod
    def from_wire(cls, wire: object) -> Compression:
        """Parse settings that a peer sent, which must have exactly these fields.

        Raises:
            RemoteProtocolError: they are not the result of `to_wire`.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(wire, dict) or set(wire) != known:
            raise RemoteProtocolError("the peer's compression settings do not have the fields they should")
        for name in ("codec", "level"):
            if not isinstance(wire[name], dict) or set(wire[name]) != set(ROLES):
                raise RemoteProtocolError(f"the peer's compression settings have no {name} for each role")
        try:
            return cls(**wire)
        except SettingError as error:
            raise RemoteProtocolError(f"the peer's compression settings cannot be used: {error}") from None


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return text if len(text) <= 2 * _MAX_NAME else text[: 2 * _MAX_NAME] + "…"


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise SettingError(f"{name} must be one of {', '.join(allowed)}; got {_shown(value)}")


def _complete(name: str, given: object, default: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not set(given) <= set(ROLES):
        raise SettingError(f"{name} must map {', '.join(ROLES)} to values, got {_shown(given)}")
    return MappingProxyType({role: given.get(role, default) for role in ROLES})


def _check_name(role: str, name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SettingError(
            f"the codec for {role} must be a name of at most {_MAX_NAME} characters, got {_shown(name)}"
        )


def _check_level(role: str, level: object) -> None:
    if level is not None and not (_is_int(level) and abs(cast(int, level)) <= _MAX_LEVEL):
        raise SettingError(f"the level for {role} must be a whole number or None, got {_shown(level)}")


def _check_number(name: str, value: object, most: float, least: float = 0.0) -> None:
    if value is None:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not (cast(float, value) > 0 and least <= cast(float, value) <= most):
        above = f"at least {least:g}" if least else "above 0"
        raise SettingError(f"{name} must be None or {above} and at most {most:g}, got {_shown(value)}")


def serves(codec: Codec, role: str) -> bool:
    """Return True if a codec may be chosen for a role: lossy ones for "gradient", lossless ones otherwise."""
    if role == GRADIENT:
        return not codec.lossless and codec.accepts(FLOAT32)
    return codec.lossless and codec.kind in (BYTES, role)


def _check_codec(role: str, codec: Codec, level: int | None) -> None:
    if role != GRADIENT and not codec.lossless:
        raise SettingError(
            f"codec {codec.name!r} loses information, and {role} travel unchanged; choose a lossless one"
        )
    if role == GRADIENT and codec.lossless:
        raise SettingError(
            f"codec {codec.name!r} leaves nothing out, so it needs no mark; choose a lossy one for gradient,"
            " or send without lossy="
        )
    if not serves(codec, role):
        raise SettingError(f"codec {codec.name!r} is for a {codec.kind}, not for {role}; choose another one")
    if level is not None and level not in codec.levels:
        raise SettingError(
            f"codec {codec.name!r} has levels {codec.levels.start} to {codec.levels.stop - 1}, not {level}"
        )
