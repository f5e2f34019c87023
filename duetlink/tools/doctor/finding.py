"""One thing found out about this machine's network: how it stands, what that means, what to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from duetlink.base.wire.text import harmless

Outcome = Literal["ok", "limited", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`words` for a person, `advice` on what to do (empty: nothing), `details` as JSON values.

    No control or direction character gets in: a part of the text may be a server's.
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
        """All fields, under their names."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


def _visible(value: Any) -> Any:
    """`value` with characters that could hide or reorder others written as escapes, at every depth."""
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, Mapping):
        return {_visible(key): _visible(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_visible(item) for item in value]
    return value
