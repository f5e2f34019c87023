"""Settings of this process that change what libraries compute, and that are not recorded with the steps.

What the mocks make under such a setting is something else than what the owner makes without it. So an
operation that depends on one is refused while it is set.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from duetlink.duet.asking.mock_tensors import is_tensor
from duetlink.errors import OperationRefused


def check_modes(operation: str, mocks: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Check the settings of torch and scikit-learn on which `operation` depends, for the mocks of its
    arguments.

    Raises:
        OperationRefused: `torch.autocast` is on; torch has another default dtype than float32, and neither a
            tensor of floats nor a keyword says which dtype the result has; scikit-learn is to return frames.
    """
    if operation.startswith("torch.") or any(map(is_tensor, mocks)):
        torch = sys.modules["torch"]
        if torch.is_autocast_enabled("cpu"):
            raise OperationRefused(
                "torch.autocast is on here, and is not recorded, so that the owner would compute in another "
                "precision: convert instead, as in model.to(torch.bfloat16), or leave the block"
            )
        default = torch.get_default_dtype()
        is_told = keywords.get("dtype") is not None or default is torch.float32
        if not is_told and not any(is_tensor(mock) and mock.is_floating_point() for mock in mocks):
            raise OperationRefused(
                f"{operation} makes items of torch's default dtype, which is {default} here and is not "
                "recorded: give a dtype, or convert an argument, as in x.to(torch.float64)"
            )
    config = sys.modules.get("sklearn._config")
    is_of_sklearn = operation.startswith("sklearn.") or any(hasattr(mock, "get_params") for mock in mocks)
    if (
        config is not None
        and is_of_sklearn
        and config._get_threadlocal_config()["transform_output"] != "default"
    ):
        raise OperationRefused(
            "scikit-learn's setting transform_output is not recorded, so that the owner would return arrays: "
            "make a frame of the result, duet.remote(pandas).DataFrame(x, columns=[…])"
        )
