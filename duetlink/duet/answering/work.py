"""The saved form of a program or function that waits for an answer, from which it can be run after a restart.

    8 bytes   length of the header, little-endian
    header    JSON: the kind of job, and the sizes of the parts
    parts     bodies of programs and values, concatenated

The record of the request holds the digest under which the job was shown to the person; `read` checks that the
job still has this digest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from duetlink.compute.operations import function
from duetlink.compute.operations.canonical import Program
from duetlink.compute.privacy.claim import Claim
from duetlink.duet.answering.job import FunctionJob, Input, Job, ProgramJob, digest_of
from duetlink.duet.answering.programs import check_lineage
from duetlink.duet.objects.asset import AssetInfo
from duetlink.errors import DuetError

Pieces = list[bytes | bytearray | memoryview]


def pieces(job: Job) -> Pieces:
    """Return the saved form of a job, to be concatenated. Values are not copied."""
    header: dict[str, Any] = {"key": job.key}
    bodies: list[Sequence[memoryview]] = []
    if isinstance(job, ProgramJob):
        asked = job.program if job.private is None else job.private.shown
        header |= {"statistic": job.statistic.decode(), "is_check": job.is_check}
        bodies = [asked.segments]
    else:
        assert isinstance(job, FunctionJob)
        header |= {
            "function": job.function,
            "source": job.source,
            "call": function.write_call(job.call.arguments, job.call.keywords).decode(),
            "mock": job.mock,
            "claim": None if job.claim is None else [job.claim.epsilon, job.claim.delta],
            "inputs": [_input(input_) for input_ in job.inputs],
        }
        bodies = [_segments(input_) for input_ in job.inputs]
    header["parts"] = [sum(map(len, body)) for body in bodies]
    text = json.dumps(header).encode()
    return [len(text).to_bytes(8, "little"), text, *(segment for body in bodies for segment in body)]


def _input(input_: Input) -> dict[str, Any]:
    if input_.asset is not None:
        return {"asset": [input_.asset.name, input_.asset.revision, input_.asset.kind]}
    return {"program": True} if input_.program is not None else {"value": input_.words}


def _segments(input_: Input) -> Sequence[memoryview]:
    if input_.asset is not None:
        return []
    return [input_.body] if input_.program is None else input_.program.segments


def read(content: bytes, info: AssetInfo) -> Job:
    """Read the job that `pieces` has written; `info` is the description of its result from the request's
    record.

    Raises ValueError: the bytes are malformed, another version of duetlink wrote them, or they are another
    job's.
    """
    try:
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        parts: list[memoryview] = []
        position = 8 + size
        for part_bytes in header["parts"]:
            parts.append(memoryview(content)[position : position + part_bytes])
            position += part_bytes
        job = (
            _read_function(header, parts, info)
            if "function" in header
            else _read_program(header, parts, info)
        )
    except (DuetError, LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"it cannot be read ({error})") from None
    job.key = header["key"]
    return job


def _read_program(header: dict[str, Any], parts: list[memoryview], info: AssetInfo) -> ProgramJob:
    (body,) = parts
    program = Program.read(body)
    shown = check_lineage(program) if header["is_check"] else program.lineage
    statistic = header["statistic"].encode()
    if not statistic:  # how a statistic is shown is only known after planning, which needs the assets
        _check(shown.digest, info)
    return ProgramJob(info, program, statistic, is_check=header["is_check"])


def _read_function(header: dict[str, Any], parts: list[memoryview], info: AssetInfo) -> FunctionJob:
    inputs = tuple(_read_input(record, part) for record, part in zip(header["inputs"], parts, strict=True))
    call = function.parse_call(header["call"].encode(), len(inputs))
    claim = None if header["claim"] is None else Claim(*header["claim"])
    name, source = header["function"], header["source"]
    _check(digest_of(name, source, call, [input_.known_by() for input_ in inputs], claim), info)
    return FunctionJob(info, name, source, call, inputs, mock=header["mock"], claim=claim)


def _read_input(record: dict[str, Any], part: memoryview) -> Input:
    if "asset" in record:
        name, revision, kind = record["asset"]
        return Input(AssetInfo(name, revision, kind, "", 0))
    if "program" in record:
        program = Program.read(part)
        program.lineage  # noqa: B018 - takes as long: here and not on the loop
        return Input(program=program)
    return Input(body=part, words=record["value"])


def _check(digest: str, info: AssetInfo) -> None:
    if info.lineage is None or info.lineage.digest != digest:
        raise ValueError("its digest is not the one in its record")
