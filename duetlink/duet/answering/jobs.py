"""Runs the jobs of one peer: programs as soon as they arrive, functions after an approval.

Their requests are ordinary ones whose content does not exist yet. Each job runs in a room of its own. Nothing
of a function is run, or even parsed, in the owner's kernel. The result leaves by the same answer as any other
object.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
import weakref
from functools import partial

from duetlink.base.audit import entry
from duetlink.base.events import Sink
from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.data.values.base import Encoded
from duetlink.duet.answering import job_run
from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.job import Job, ProgramJob
from duetlink.duet.answering.programs import Programs
from duetlink.duet.answering.states import PENDING
from duetlink.duet.objects.asset import Content
from duetlink.duet.objects.catalogue import Catalogue
from duetlink.duet.objects.decoding import Decoding
from duetlink.duet.objects.recorder import BEGUN, Recorder, described
from duetlink.errors import OperationFailed, WorkerUnavailable
from duetlink.net.link.link import Link
from duetlink.net.link.transfer import COMPLETE, FAILED
from duetlink.settings import Settings

AT_ONCE = 2  # functions that run at once; others wait
KILLED = "killed"
_MAX_EVENT_LINES = 20_000
_LOG_WORDS = "what the function prints, and its progress"


class Jobs:
    """The programs and functions of one peer. Methods run on the loop thread."""

    def __init__(
        self,
        catalogue: Catalogue,
        settings: Settings,
        recorder: Recorder,
        decoding: Decoding,
        sink: Sink,
        programs: Programs,
    ) -> None:
        self._programs = programs
        self._catalogue = catalogue
        self._sink = sink
        self.settings = settings
        self._recorder = recorder
        self._decoding = decoding
        self._link: Link | None = None
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._turn = asyncio.Lock()  # programs run one after another, in order of arrival
        self._begun: weakref.WeakSet[Job] = weakref.WeakSet()

    def attach(self, link: Link) -> None:
        self._link = link

    async def close(self) -> None:
        """Stop all jobs that run; their rooms are gone when this returns."""
        running = [job.task for job in self._begun if job.task is not None]
        for job in self._begun:
            job.stop()
        await asyncio.gather(*running, return_exceptions=True)

    # -- runs ------------------------------------------------------------------------------------------------

    async def make(self, request: Incoming, by: str, timeout_s: float | None = None) -> None:
        """Run the job of a request, or join its present run; return when its result can be approved. Does
        nothing if it has been made. A cancel ends the room, unless another caller started the run.

        Raises:
            OperationFailed: the run failed; `job.failure` has the reason.
            RequestAnswered: it was denied or withdrawn meanwhile.
            AssetNotFound, AssetChanged: an input is no longer shared.
            WorkerUnavailable: no room can be started, or the run was stopped.
            AuditUnavailable: the run cannot be recorded; it does not start.
            BudgetExceeded: it claims to cost more than is left; it does not start, and nothing was charged.
        """
        job = request.job
        assert job is not None
        if job.made:
            return
        mine = not job.busy
        if mine:
            self.start(request, by, timeout_s)
        task = job.task
        assert task is not None
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            if mine:
                job.cancel()
                await asyncio.wait((task,))
            raise
        if task.cancelled():
            request.check_pending()
            raise WorkerUnavailable(f"{job.name} was stopped")
        task.result()

    def start(self, request: Incoming, by: str, timeout_s: float | None = None) -> None:
        """Start the run; `make` waits for it. From here on the request does not wait for a person."""
        job = request.job
        assert job is not None
        job.task = asyncio.ensure_future(self._run(request, job, by, timeout_s))
        job.task.add_done_callback(job.ended)
        self._begun.add(job)

    async def stop(self, request: Incoming) -> None:
        """End the run of a request, if there is one. The request stays pending."""
        request.check_pending()
        job = request.job
        if job is not None and job.task is not None and job.busy:
            job.cancel()
            await asyncio.wait((job.task,))

    async def _run(self, request: Incoming, job: Job, by: str, timeout_s: float | None) -> None:
        settings, recorder = self.settings, self._recorder
        limits = Limits(
            memory_bytes=settings.worker_memory_bytes,
            wall_s=settings.worker_timeout_s if timeout_s is None else timeout_s,
            result_bytes=settings.worker_result_bytes,
        )
        run_entry = partial(described, entry.RUN, request.asset, request=request.number, by=by)
        async with self._turn if isinstance(job, ProgramJob) else self._slots:
            self._catalogue.check_offered(request.asset)
            why = "" if job.claim is None else f"private: {job.claim}"
            if job.claim is not None and not job.is_charged:
                assert job.info.lineage is not None
                await self._programs.charge(job.info.lineage.assets, job.claim, job.key)
                job.is_charged = True  # also a second run is covered by this charge
            try:
                await recorder.record(run_entry(state=BEGUN, reason=why), sync=False)
            except asyncio.CancelledError:  # the entry is written nevertheless
                recorder.note(run_entry(state=KILLED))
                raise
            job.failure, job.running = None, True
            job.started_s, job.steps_done = time.monotonic(), 0
            self._sink.changed()
            state = FAILED
            try:
                on_event = partial(self._on_event, request, job)
                encoded, group = await job_run.run(job, limits, on_event, self._decoding, self._programs)
                await self._keep(request, job, encoded, group)
                state = COMPLETE
            except asyncio.CancelledError:
                state = KILLED
                raise
            except OperationFailed:
                state = KILLED if job.failure is not None and job.failure.stopped else FAILED
                raise
            finally:
                job.running, job.memory_bytes = False, lambda: None  # drop the reference to the room
                recorder.note(run_entry(state=state))
                self._end_log(request, job)
                self._sink.changed()

    async def _keep(self, request: Incoming, job: Job, encoded: Encoded, group: int | None) -> None:
        """Make the result the content of the request, and describe it in `request.asset`."""
        content = Content(encoded)
        content.decode = self._decoding.for_threads()
        await content.read()
        fingerprint = (await content.outgoing()).fingerprint.hex()
        summary = encoded.summary
        request.asset = dataclasses.replace(
            request.asset,
            revision=request.asset.revision + 1,
            kind=summary.kind,
            detail=summary.detail,
            size_bytes=encoded.size_bytes,
            elements=summary.elements,
            fingerprint=fingerprint,
            group=group,
        )
        request.hold(content, self._catalogue.holdings)
        job.made = True

    # -- the log of a run ------------------------------------------------------------------------------------

    async def share_log(self, request: Incoming) -> None:
        """Send the peer what the function has printed and will print, and its progress.

        Raises:
            AuditUnavailable: this cannot be recorded; the peer gets nothing of it.
        """
        job = request.job
        assert job is not None
        if job.shared_lines is None:
            begun = described(
                entry.RELEASE, request.asset, request=request.number, state=BEGUN, reason=_LOG_WORDS
            )
            await self._recorder.record(dataclasses.replace(begun, size_bytes=None))
            job.shared_lines = 0
        self._send_log(request, job)
        if job.made:
            self._end_log(request, job)

    def _end_log(self, request: Incoming, job: Job) -> None:
        """Record how much of the log the peer has received."""
        if job.shared_lines is None:
            return
        left_bytes = sum(len(line.encode()) + 1 for line in job.log.lines[: job.shared_lines])
        ended = described(
            entry.RELEASE, request.asset, request=request.number, state=COMPLETE, reason=_LOG_WORDS
        )
        self._recorder.note(
            dataclasses.replace(ended, size_bytes=left_bytes, left_bytes=left_bytes, path="inline")
        )

    def _on_event(self, request: Incoming, job: Job, name: str, content: bytes) -> None:
        if name == "log":
            job.log.add(content.decode(errors="replace").split("\n", _MAX_EVENT_LINES)[:_MAX_EVENT_LINES])
        elif name == "progress":
            try:
                progress = json.loads(content)
            except (ValueError, RecursionError):
                return
            if job.is_function:
                job.log.tell(progress)
            elif type(progress) is int:  # the number of the present step
                job.steps_done = max(0, min(progress - 1, job.steps))
        self._send_log(request, job)
        self._sink.changed()

    def _send_log(self, request: Incoming, job: Job) -> None:
        if job.shared_lines is None or self._link is None or request.state != PENDING:
            return
        lines = job.log.lines[job.shared_lines :]
        job.shared_lines += len(lines)
        for question in request.waiting:
            message = pb.WorkLog(request_id=question, lines=lines)
            if job.log.fraction is not None:
                message.fraction = job.log.fraction
            self._link.rpc.tell_nowait(message)
