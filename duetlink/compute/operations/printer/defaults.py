"""Default arguments that torch's modules pass to its functions: code is easier to read without them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FUNCTIONS: dict[str, Any] = {
    **dict.fromkeys(("inplace", "ceil_mode", "return_indices"), False),
    **dict.fromkeys(("reduce", "size_average", "weight", "bias", "pos_weight", "divisor_override"), None),
    "count_include_pad": True,
    "dilation": 1,
    "ignore_index": -100,
    "label_smoothing": 0.0,
    "padding": 0,
    "reduction": "mean",
}
_BACKWARD: dict[str, Any] = {
    "create_graph": False,
    **dict.fromkeys(("gradient", "inputs", "retain_graph"), None),
}


def shown_keywords(operation: str, keywords: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments to print; the others have their default."""
    defaults = FUNCTIONS if operation.startswith("torch.nn.functional.") else {}
    if operation == ".backward":
        defaults = _BACKWARD
    return [
        name
        for name, value in keywords.items()
        if name not in defaults or type(value) is not type(defaults[name]) or value != defaults[name]
    ]
