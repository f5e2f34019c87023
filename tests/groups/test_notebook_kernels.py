"""Groups of real Jupyter kernels on one host: two of them here, two to eight by `python -m tests.groups`."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import pytest

from tests.groups.kernel_work import DTYPES
from tests.widgets.kernel import Kernel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
MOST = int(os.environ.get("DUETLINK_KERNELS", "2"))
KINDS = ("float32", "int8", "bool") if MOST == 2 else DTYPES  # to be short where every change waits for it
BEGIN = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
import duetlink
from tests.groups.kernel_work import others, reductions, rounded
"""
WORK = [*(f"reductions(group, {dtype!r})" for dtype in KINDS), "others(group)", "rounded(group)"]
STEP = """
import traceback
try:
    found = {step}
except Exception:
    found = traceback.format_exc()
"""


@pytest.mark.parametrize("size", range(2, MOST + 1))
def test_every_operation_between_kernels_is_numpys_and_has_the_same_bits_at_all(size: int) -> None:
    with contextlib.ExitStack() as stack:
        kernels = [Kernel() for _ in range(size)]
        for kernel in kernels:
            stack.callback(kernel.close)
        first, *others = kernels
        code = first.run(f"{BEGIN}group = duetlink.group(size={size}); print(group.code)").split()[-1]
        for kernel in others:
            kernel.run(f"{BEGIN}group = duetlink.group({code!r})")
        for kernel in kernels:
            kernel.run("_ = group.wait_ready(60)")
        for step in WORK:
            begun = [kernel.begin(STEP.format(step=step)) for kernel in kernels]
            for kernel, number in zip(kernels, begun, strict=True):
                kernel.wait_ended(number)
            found = [kernel.run("print(group.size, found)") for kernel in kernels]
            assert re.fullmatch(rf"{size} (None|[0-9a-f]{{16}})\n", found[0]), found[0]
            assert found == [found[0]] * size
