"""What an approved function finds when it looks who has called it: nothing of the room that it runs in."""

from __future__ import annotations

import json
from typing import cast

from duetlink.compute.operations.function import write_call
from duetlink.compute.worker.kernel.process import Room
from duetlink.compute.worker.protocol import answers
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.data import values
from tests.compute.worker.conftest import BOOTSTRAP, Place

LIMITS = Limits(result_bytes=1 << 20, threads=2)

# all objects that can be reached from the frames of all threads, but for what modules and classes hold
SOURCE = """\
import io
import sys
import threading
import types


def look():
    frames = list(sys._current_frames().values())
    try:
        raise KeyError
    except KeyError as error:
        trace = error.__traceback__
        while trace is not None:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
    found, names, seen = list(threading.enumerate()), set(), set()
    for frame in frames:
        while frame is not None:
            names.update(frame.f_locals)
            found.extend(frame.f_locals.values())
            frame = frame.f_back
    found += [sys.stdout, sys.stderr, sys.exc_info()]
    kinds = set()
    while found and len(seen) < 100_000:
        obj = found.pop()
        if id(obj) in seen or isinstance(obj, (types.ModuleType, type)) or obj is names or obj is kinds:
            continue
        seen.add(id(obj))
        kinds.add(f"{type(obj).__module__}.{type(obj).__qualname__}")
        if isinstance(obj, dict):
            if "__builtins__" not in obj:
                found += [*obj.keys(), *obj.values()]
        elif isinstance(obj, (list, tuple, set, frozenset)):
            found += list(obj)
        elif isinstance(obj, types.FunctionType):
            found += [*(obj.__closure__ or ()), *(obj.__defaults__ or ())]
        elif isinstance(obj, types.CellType):
            found.append(obj.cell_contents)
        elif isinstance(obj, types.GeneratorType):
            found += [] if obj.gi_frame is None else obj.gi_frame.f_locals.values()
        else:
            for name in ("__self__", "__func__", "__wrapped__", "func", "args", "keywords"):
                found.append(getattr(obj, name, None))
            found.append(getattr(obj, "__dict__", None))
            for kind in type(obj).__mro__:
                slots = kind.__dict__.get("__slots__", ())
                for slot in (slots,) if isinstance(slots, str) else slots:
                    found.append(getattr(obj, slot, None))
    return sorted(kinds), sorted(names)
"""


async def _looked() -> tuple[list[str], list[str]]:
    room = await Room.start(LIMITS, handler="job", bootstrap=BOOTSTRAP)
    try:
        call = write_call([], {}).decode()
        job = {"name": "look", "source": SOURCE, "call": call, "max_bytes": 1 << 20, "claim": None}
        reply = await room.call("run", json.dumps(job).encode(), memory=True)
        outcome = answers.read_outcome(reply.content, reply.fds)
        assert not isinstance(outcome, dict), outcome
        return cast(tuple[list[str], list[str]], values.decode(b"".join(outcome.segments)))
    finally:
        await room.close()


def test_no_frame_leads_to_the_channel_the_handler_or_the_meter(place: Place) -> None:
    kinds, names = place.run(_looked())
    assert "duetlink.compute.worker.room.output.Output" in kinds  # it has looked
    ours = {kind for kind in kinds if kind.startswith("duetlink.")}
    assert ours == {"duetlink.compute.worker.room.job._Job", "duetlink.compute.worker.room.output.Output"}
    assert "socket.socket" not in kinds
    assert not {"console", "handler", "emit", "counted", "lockdown"} & set(names)
