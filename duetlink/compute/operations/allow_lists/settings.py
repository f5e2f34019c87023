"""Settings of libraries that change the result of a step and are no argument of it.

They are written as `{"autocast": "bfloat16", "dtype": "float64", "output": "pandas"}`, in this order.
`autocast`: torch computes in this dtype on the CPU. `dtype`: torch's default dtype. `output`: scikit-learn's
transformers return frames.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

Settings = tuple[tuple[str, str], ...]  # sorted (name, value) pairs; empty: the libraries' defaults
_VALUES = {
    "autocast": ("bfloat16", "float16"),
    "dtype": ("bfloat16", "float16", "float32", "float64"),
    "output": ("pandas",),  # not "polars": such frames would share the memory of an array
}
_WORDS = {
    "autocast": 'within torch.autocast("cpu", dtype=torch.{})',
    "dtype": "after torch.set_default_dtype(torch.{})",
    "output": 'within sklearn.config_context(transform_output="{}")',
}


def settings_of(raw: Any) -> Settings | None:
    """Validate settings from JSON; None if they are malformed."""
    if type(raw) is dict and all(raw[name] in _VALUES.get(name, ()) for name in raw):
        return tuple(sorted(raw.items()))
    return None


def words_of(settings: Settings) -> list[str]:
    """Return the comments that tell a reader of the code about the settings."""
    return [_WORDS[name].format(value) for name, value in settings]


@contextlib.contextmanager
def under(settings: Settings) -> Iterator[None]:
    """Apply these settings within a block. Other settings keep their values."""
    with contextlib.ExitStack() as stack:
        for name, value in settings:
            if name == "output":
                sklearn = importlib.import_module("sklearn")
                stack.enter_context(sklearn.config_context(transform_output=value))
                continue
            torch = importlib.import_module("torch")
            if name == "autocast":
                stack.enter_context(torch.autocast("cpu", dtype=getattr(torch, value)))
            else:
                stack.callback(torch.set_default_dtype, torch.get_default_dtype())
                torch.set_default_dtype(getattr(torch, value))
        yield
