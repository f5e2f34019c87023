"""The handler of rooms that run a function whose source text the owner, or a policy, has approved."""

from __future__ import annotations

import contextlib
import json
import linecache
import sys
import traceback
import types
from collections.abc import Sequence
from typing import Any

from duetlink.compute.operations.function import decode, parse_call
from duetlink.compute.privacy import meter
from duetlink.compute.privacy.claim import Claim
from duetlink.compute.worker.protocol import answers
from duetlink.compute.worker.protocol.handlers import Answer, Emit, UntrustedWork
from duetlink.compute.worker.protocol.memory import map_sealed
from duetlink.compute.worker.room.console import KernelGone
from duetlink.compute.worker.room.output import captured_output
from duetlink.data import values
from duetlink.data.values.base import Encoded
from duetlink.errors import BudgetExceeded, LimitExceeded, OperationFailed, RemoteProtocolError

MODULE = "duetlink_function"
_MAX_TEXT = 2_000
_MAX_TRACEBACK = 20_000  # characters
_MOST_KINDS = 20


class JobHandler:
    """Runs one function. The kernel sends its inputs first, then its source text and the call."""

    def __init__(self) -> None:
        self._inputs: dict[int, Any] = {}

    def handle(self, command: str, content: bytes, fds: Sequence[int], emit: Emit) -> Answer | UntrustedWork:
        """Carry out `input` (an encoded value with a number) or `run` (source text and call).

        The answer to `run` is read by `answers.read_outcome`: a value, or a description of the failure.
        Raises RemoteProtocolError for other commands, and the errors of `values.decode`.
        """
        fields = json.loads(content)
        if command == "input":
            (fd,) = fds
            body = map_sealed(fd, fields["size_bytes"], writable_copy=True)
            self._inputs[fields["number"]] = values.decode(body)
            return b"", ()
        if command == "run":
            return self._run(fields, emit)
        raise RemoteProtocolError(f"the room knows no command {command!r}")

    def _run(self, fields: dict[str, Any], emit: Emit) -> UntrustedWork:
        job = _Job(fields["name"], fields["source"], fields["call"].encode(), self._inputs)
        around = contextlib.ExitStack()
        around.enter_context(captured_output(emit))
        counted = around.enter_context(meter.counted())

        def answer() -> Answer:
            around.close()
            encoded = job.encoded
            if encoded is None:
                return answers.failed(job.failed)
            try:
                if fields["claim"] is not None:
                    check_claim(Claim(*fields["claim"]), counted)
                size_bytes, most = encoded.size_bytes, fields["max_bytes"]
                if size_bytes > most:
                    raise LimitExceeded(f"the result has {size_bytes:,} bytes, over the {most:,} allowed")
                return answers.made(encoded)
            except KernelGone:
                raise
            except BaseException as error:
                return answers.failed(job.failure(error))

        return UntrustedWork(job, answer)


class _Job:
    """One call of a function, and its outcome. The function can reach this object through the stack frames.

    So it holds nothing but the source text, the call, the inputs and the outcome.
    """

    def __init__(self, name: str, source: str, call: bytes, inputs: dict[int, Any]) -> None:
        self.encoded: Encoded | None = None
        self.failed: dict[str, Any] = {}  # the failure, if `encoded` is None
        self._name = name
        self._source = source
        self._call = call
        self._inputs = inputs
        self._file = f"<{name}>"
        self._first_line = 1

    def __call__(self) -> None:
        """Call the function, and encode its result or describe its error, which may run its code, too."""
        try:
            self.encoded = values.encode(self._result(), plain_nan=True)
        except BaseException as error:  # SystemExit as well: it is reported like other errors
            self.failed = self.failure(error)

    def _result(self) -> Any:
        # so that tracebacks show the source lines
        linecache.cache[self._file] = (
            len(self._source),
            None,
            self._source.splitlines(keepends=True),
            self._file,
        )
        # a real module in sys.modules: dataclasses and others look up a class's module there
        module = sys.modules[MODULE] = types.ModuleType(MODULE)
        exec(compile(self._source, self._file, "exec", dont_inherit=True), module.__dict__)
        function = module.__dict__.get(self._name)
        if not isinstance(function, types.FunctionType) or function.__code__.co_filename != self._file:
            raise OperationFailed(f"the source defines no function {self._name}")
        self._first_line = function.__code__.co_firstlineno
        arguments, keywords = parse_call(self._call, len(self._inputs))
        return function(
            *(decode(argument, self._inputs.__getitem__) for argument in arguments),
            **{key: decode(argument, self._inputs.__getitem__) for key, argument in keywords.items()},
        )

    def failure(self, error: BaseException) -> dict[str, Any]:
        """Describe an error for the kernel, which passes on to the peer as much as the owner allows."""
        return {
            "kinds": [kind.__name__[:100] for kind in type(error).__mro__[:_MOST_KINDS]],
            "message": _text(error),
            "line": self._line(error),
            "traceback": self._traceback(error)[-_MAX_TRACEBACK:],
        }

    def _line(self, error: BaseException) -> int:
        """Return the line of the function where it failed, its `def` being line 1; 0 if it is elsewhere."""
        line, trace = 0, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self._file:
                line = max(0, trace.tb_lineno - self._first_line + 1)
            trace = trace.tb_next
        return line

    def _traceback(self, error: BaseException) -> str:
        try:
            report = traceback.TracebackException.from_exception(error, limit=-500)
            self._keep_own_frames(report, 0)
            return "".join(report.format())
        except Exception as another:  # its own __str__ may raise
            return f"{type(error).__name__}, which cannot be shown ({type(another).__name__})"

    def _keep_own_frames(self, report: traceback.TracebackException, depth: int) -> None:
        """Remove the frames that are not the function's, here and in the exceptions that caused this one."""
        report.stack[:] = [frame for frame in report.stack if frame.filename == self._file]
        for cause in (report.__cause__, report.__context__):
            if cause is not None and depth < _MOST_KINDS:
                self._keep_own_frames(cause, depth + 1)


def check_claim(claim: Claim, counted: meter.Meter) -> None:
    """Raise BudgetExceeded for a function whose private computations cost more than it claims.

    This check finds mistakes. It does not check that the rest of the return value reveals nothing about rows:
    the owner reads the source text for that.
    """
    if not counted.is_used:
        raise BudgetExceeded("it claims to train privately, but has made no DpSgd: nothing of it leaves")
    cost = counted.epsilon(claim.delta)
    if not cost <= claim.epsilon:
        raise BudgetExceeded(
            f"its trainings have cost an epsilon of {cost:.3g} at delta {claim.delta:g}; it claims {claim}, "
            "and nothing of it leaves: give DpSgd a budget, more noise, or fewer steps"
        )


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_MAX_TEXT]
    except Exception:
        return ""
