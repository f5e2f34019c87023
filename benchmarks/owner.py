"""The owner's side of a benchmark, in a process of its own, and the handle on it."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import resource
import threading
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

import duetlink
from benchmarks.baselines.data_channel import only_data_channel
from benchmarks.baselines.private_buffers import copy_what_is_sent
from duetlink import Duet, Settings
from tests.lab.interpreter import approve_all


class Owner:
    """Launches a duet in a child process and joins it from here. Every request is approved at once."""

    def __init__(
        self, settings: Settings, *, data_channel_only: bool = False, private_buffers: bool = False
    ) -> None:
        if data_channel_only:
            settings = only_data_channel(settings)
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        arguments = (there, settings, data_channel_only, private_buffers)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        self.scientist: Duet = duetlink.join(self._pipe.recv(), settings=settings)

    def share(self, name: str, dtype: str, shape: tuple[int, ...], seed: int, *, mock: bool = False) -> None:
        """Share a fresh array there and return when its name is here."""
        self._call("share", name, dtype, shape, seed, "auto" if mock else None)
        while name not in self.scientist.store or self.scientist.store[name].kind != "numpy.ndarray":
            threading.Event().wait(0.001)

    def share_copy(self, name: str, source: str) -> None:
        """Share a copy of an array that is shared there, and return when its name is here."""
        self._call("copy", name, source)
        self.scientist.wait_object(name, 60)

    def share_digits(self, images: str, labels: str, rows: int, side: int) -> None:
        """Share so many of scikit-learn's digits as tensors, enlarged, with mocks of the same shape."""
        self._call("digits", images, labels, rows, side)
        self.scientist.wait_object(labels, 20)

    def share_many(self, number: int) -> None:
        """Share so many numbers, called `asset 0`, `asset 1`, …"""
        self._call("many", number)

    def make_source(self, count: int) -> None:
        """Make so many numbers there, from which `fill` fills arrays."""
        self._call("source", count)

    def fill(self, name: str, way: str) -> None:
        """Make an array there, by `numpy.empty` or `duetlink.empty`, and fill it."""
        self._call("fill", name, way)

    def share_filled(self, name: str) -> None:
        self._call("share filled", name)

    def is_sum_of_source(self, total: float) -> bool:
        return bool(self._call("sum") == total)

    def used_bytes(self) -> int:
        """Return the memory that the child uses, as the function `used_bytes` counts it."""
        return int(self._call("used"))

    def unshare(self, name: str) -> None:
        self._call("unshare", name)
        while name in self.scientist.store:
            threading.Event().wait(0.001)

    def received(self, name: str) -> Any:
        """What the child has received under `name`."""
        return self._call("received", name)

    def peak_bytes(self, reset: bool = False) -> int:
        """The most memory that the child has held since it was last reset."""
        return int(self._call("peak", reset))

    def close(self) -> None:
        self.scientist.close()
        self._pipe.send(("end",))
        self._process.join(20)

    def _call(self, *command: Any) -> Any:
        self._pipe.send(command)
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


def array(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(dtype)


def peak_bytes(reset: bool = False) -> int:
    """The most memory of this process in use at once (VmHWM), anonymous and mapped."""
    if reset:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    with open("/proc/self/status", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def cpu_s(pid: int) -> float:
    """The processor time of a process so far, of all its threads."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def used_bytes(pid: int) -> int:
    """The memory that a process has for itself, and all of the shared memory of which it has descriptors."""
    gc.collect()
    shared = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            if "memfd:duetlink" in os.readlink(f"/proc/{pid}/fd/{fd}"):
                status = os.stat(f"/proc/{pid}/fd/{fd}")
                shared[status.st_ino] = status.st_blocks * 512
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        own = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))
    return own + sum(shared.values())


def _wait_prepared(duet: Duet, name: str) -> None:
    """Wait for what share() does in the background: it is not to run while something else is measured."""
    life = duet._life
    outgoing = life.catalogue.mine[name].content._outgoing.result()  # type: ignore[union-attr]
    if life.link is not None and life.settings.allowed_paths == ("local",):
        if outgoing.size_bytes > life.settings.prepare_limit_bytes:
            return
        placed = life.link.path_selector.named("local")._placed  # type: ignore[attr-defined]
        while outgoing not in placed or not placed[outgoing].done():
            threading.Event().wait(0.001)


def _serve(pipe: Connection, settings: Settings, data_channel_only: bool, private_buffers: bool) -> None:
    if data_channel_only:
        settings = only_data_channel(settings)
    if private_buffers:
        copy_what_is_sent()
    import io

    with contextlib.redirect_stdout(io.StringIO()):
        duet = duetlink.launch(settings=settings)
    pipe.send(duet.code)

    approve_all(duet)
    assets: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    while True:
        command, *arguments = pipe.recv()
        if command == "end":
            duet.close()
            return
        result: Any = None
        try:
            if command == "share":
                name, dtype, shape, seed, mock = arguments
                arrays[name] = array(dtype, shape, seed)
                assets[name] = duet.share(arrays[name], name, mock=mock)
                _wait_prepared(duet, name)
            elif command == "copy":
                name, source = arguments
                arrays[name] = arrays[source].copy()
                assets[name] = duet.share(arrays[name], name)
                _wait_prepared(duet, name)
            elif command == "source":
                arrays["source"] = array("float64", tuple(arguments), 1)
            elif command == "fill":
                name, way = arguments
                make = duetlink.empty if way == "duetlink.empty" else np.empty
                arrays[name] = make(arrays["source"].shape)
                arrays[name][...] = arrays["source"]
            elif command == "share filled":
                assets[arguments[0]] = duet.share(arrays[arguments[0]], arguments[0])
            elif command == "sum":
                result = float(np.add.reduce(arrays["source"]))
            elif command == "used":
                result = used_bytes(os.getpid())
            elif command == "digits":
                _share_digits(duet, *arguments)
            elif command == "many":
                for number in range(*arguments):
                    duet.share(number, f"asset {number}", description="a number", tags=("number", "small"))
            elif command == "unshare":
                assets.pop(arguments[0]).unshare()
                del arrays[arguments[0]]
            elif command == "received":
                result = duet.store[arguments[0]].get()
            elif command == "peak":
                result = peak_bytes(*arguments)
        except Exception as error:
            result = error
        pipe.send(result)


def _share_digits(duet: Duet, images: str, labels: str, rows: int, side: int) -> None:
    import torch
    from sklearn.datasets import load_digits

    digits = load_digits()
    small = torch.tensor(digits.images[:rows], dtype=torch.float32)[:, None] / 16
    large = torch.nn.functional.interpolate(small, size=(side, side)).flatten(1).contiguous()
    classes = torch.tensor(digits.target[:rows])
    duet.share(large, images, mock=torch.rand_like(large))
    duet.share(classes, labels, mock=torch.randint(0, 10, classes.shape))
