"""One lab per module of tests, and the last packets of a test that failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.lab import Lab
from tests.lab.namespace import unsupported


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A lab of this module's own."""
    if why := unsupported():
        pytest.skip(why)
    with Lab(capture=True) as lab:
        yield lab


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Say where the packets of a failed test are; of those that pass nothing is kept."""
    report = yield
    lab = getattr(item, "funcargs", {}).get("lab")
    if call.when == "call" and report.failed and lab is not None:
        directory = item.config._tmp_path_factory.mktemp("packets")  # type: ignore[attr-defined]
        report.sections.append(("packets", "\n".join(map(str, lab.keep_capture(directory)))))
    return report
