"""Settings of this process that change the results of libraries, such as torch's autocast.

They are recorded with each step that depends on them, and the owner's process uses the same.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from duetlink.compute.operations.allow_lists.settings import Settings
from duetlink.duet.asking.mocks.mock_tensors import is_tensor
from duetlink.errors import OperationRefused


def settings_here(operation: str, mocks: Sequence[Any]) -> Settings:
    """Return the current settings of torch and scikit-learn that `operation` depends on.

    `mocks` are the mocks of its arguments.

    Raises:
        OperationRefused: transformers are set to return frames of another library than pandas.
    """
    found: list[tuple[str, str]] = []
    torch = sys.modules.get("torch")
    if torch is not None and (operation.startswith("torch.") or any(map(is_tensor, mocks))):
        if torch.is_autocast_enabled("cpu"):
            found.append(("autocast", _name(torch.get_autocast_dtype("cpu"))))
        if (default := torch.get_default_dtype()) is not torch.float32:
            found.append(("dtype", _name(default)))
    config = sys.modules.get("sklearn._config")
    if config is not None and (
        operation.startswith("sklearn.") or any(hasattr(mock, "get_params") for mock in mocks)
    ):
        output = config._get_threadlocal_config()["transform_output"]
        if output == "pandas":
            found.append(("output", output))
        elif output not in (None, "default"):
            raise OperationRefused(
                f"scikit-learn's transform_output={output!r} is not for the owner: set 'default' or 'pandas'"
            )
    return tuple(found)


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
