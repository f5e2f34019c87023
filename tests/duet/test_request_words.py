"""How a request reads at its owner that is for a result of listed steps, before it is made and as it runs."""

from __future__ import annotations

import re
import time
from typing import Any, cast

from duetlink.compute.operations.canonical import Program
from duetlink.compute.operations.lineage import Lineage
from duetlink.duet.answering.failure import Failure
from duetlink.duet.answering.incoming import Incoming, utc_now
from duetlink.duet.answering.job import NOT_RUN, ProgramJob
from duetlink.duet.answering.requests import Request, RequestTable
from duetlink.duet.objects.asset import AssetInfo

LINEAGE = Lineage((("ages", 0),), ("mean",), 1, "ages.mean()", "v2:" + "0" * 64, "ages.mean()")
INFO = AssetInfo("ages.mean()", 0, "", NOT_RUN, 0, lineage=LINEAGE, group=None)


def asked() -> tuple[Request, ProgramJob]:
    steps = [["asset", ["ages", 0]], *[[".mean", [[place]]] for place in range(1, 10)]]
    job = ProgramJob(INFO, Program.of_steps(steps, 10))
    incoming = Incoming(3, INFO, None, "Sven", "table 1", utc_now(), None, job=job)
    nothing = cast(Any, None)  # neither queue nor loop is needed to read it
    return Request(incoming, nothing, nothing), job


def row(request: Request) -> tuple[str, ...]:
    (only,) = RequestTable([request]).table().rows
    return only


def test_a_result_that_is_not_made_says_so() -> None:
    request, _ = asked()
    assert repr(request) == (
        f"<Request 3 (pending): Sven asks for 'ages.mean()', {NOT_RUN}; reason: table 1>"
    )
    assert (request.function, request.preview()) == ("", "not known: run() makes it here, and only here")
    assert "<div>how it is made:</div>" in request._repr_html_()


def test_a_result_that_is_made_says_its_step_time_and_memory() -> None:
    request, job = asked()
    job.running, job.steps_done = True, 2
    job.started_s, job.memory_bytes = time.monotonic() - 100, lambda: 120_000_000
    assert re.fullmatch(r"step 3 of 10, 10\d s, 120 MB", request.running)
    assert request.state == "running"
    assert row(request)[1] == f"running: {request.running}"
    job.steps_done = 10  # what was asked for is being encoded
    assert request.running.startswith("step 10 of 10, ")


def test_a_result_that_could_not_be_made_says_in_which_step() -> None:
    request, job = asked()
    job.failure = Failure.of_step(2, "series.mean", "TypeError", "cannot average 'Olga'")
    assert request.failure == "TypeError in step 2, series.mean"
    assert "not been run and failed here: TypeError in step 2, series.mean; reason" in repr(request)
    assert row(request)[4] == "it failed here: TypeError in step 2, series.mean"
    assert list(request.log) == ["cannot average 'Olga'"]
    shown = repr(request) + request._repr_html_()
    assert "it failed here: TypeError in step 2, series.mean. The peer knows nothing" in shown
    assert "Olga" not in shown
