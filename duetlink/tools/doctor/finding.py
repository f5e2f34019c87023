"""The class `Finding`: one fact about this machine's network, with its outcome and advice."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from duetlink.base.wire.text import harmless

Outcome = Literal["ok", "limited", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact: `words` for a person, `advice` on what to do (empty if nothing), `details` as JSON values.

    Control and direction characters are escaped, since a part of the text may come from a server.
    """

    name: str
    outcome: Outcome
    words: str
    advice: str = ""
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, _visible(getattr(self, field.name)))

    def to_json(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def _visible(value: Any) -> Any:
    """Escape characters that could hide or reorder others, at every depth of a JSON value."""
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, Mapping):
        return {_visible(key): _visible(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_visible(item) for item in value]
    return value
