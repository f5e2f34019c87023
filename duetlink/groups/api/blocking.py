"""Operations of a group as a person calls them: each returns when it has ended, and shows how far it is."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from duetlink.attributes import KnownAttributes
from duetlink.base.runtime.caller import here
from duetlink.base.runtime.loop import LoopThread
from duetlink.groups.api import watching
from duetlink.groups.api.call import Call, ProgressBar
from duetlink.groups.api.operations import Operations
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.lifecycle.life import GroupLife

T = TypeVar("T")
P = ParamSpec("P")


class BlockingOperations(KnownAttributes):
    """Those of one member. `Group` says what holds for all of them, `AwaitableGroup` has them for `await`."""

    def __init__(self, life: GroupLife, thread: LoopThread, operations: Operations) -> None:
        self._life = life
        self._thread = thread
        self._operations = operations

    def admit(self, *, timeout_s: float | None = None) -> None:
        """Let those in who have joined since. All members call it; `average` does it by itself."""
        self._run(self._operations.admit, timeout_s=timeout_s)

    def average(
        self,
        value: Any,
        weight: float | None = None,
        *,
        secure: bool = False,
        limit: float | None = None,
        colluding: int | None = None,
        accountable: bool = False,
        timeout_s: float | None = None,
    ) -> Any:
        """The mean of all members' values, the same bits for everybody.

        Args:
            value: arrays as for `all_reduce`, which come back as new ones; or a torch module, whose
                parameters and buffers are replaced once all of them are there. Bools have no mean: they are
                the same at all members, or UnsupportedValue names them.
            weight: how much this member's counts, such as its number of rows. All give one, or none. With 0
                its value does not count.
            secure, limit, colluding, accountable: as for `all_reduce`. A secure weight is 0, or from 2^-10 to
                2^20, and all learn the sum of the weights.
            timeout_s: CallTimeout after so long; the value is then as it was.

        Newcomers who wait come in first, where the group was launched without a size.
        """
        options = ReduceOptions(
            "mean", secure=secure, limit=limit, colluding=colluding, accountable=accountable
        )
        return self._run(self._operations.average, value, weight, options, timeout_s=timeout_s)

    def sync(self, state: Any, *, timeout_s: float | None = None) -> Any:
        """The state that most members hold (of several, that of the lowest rank), at all of them.

        Digests are compared, and only arrays that differ are sent. `state` is an array, a dict of arrays, or
        a torch module, which is changed in place.
        """
        return self._run(self._operations.sync, state, timeout_s=timeout_s)

    def all_reduce(
        self,
        value: Any,
        op: str = "sum",
        *,
        in_place: bool = False,
        algorithm: str | None = None,
        codec: str | None = None,
        secure: bool = False,
        limit: float | None = None,
        noise: float = 0.0,
        colluding: int | None = None,
        accountable: bool = False,
        timeout_s: float | None = None,
    ) -> Any:
        """Combine all members' values; everybody has the result, in the same bits.

        Args:
            value: of the same form at all members. Or a function of (rank, size) that makes it when the
                operation begins, in another thread: for what depends on who takes part.
            op: sum, mean, min, max, prod, and, or, xor; a mean of integers is rounded, halves up.
            in_place: write the result into the value's own arrays. They are as they were if it fails.
            algorithm: one that `explain` lists; the quickest otherwise. The same at all members.
            codec: how less than whole arrays can be sent for a sum or a mean, the same at all members:
                `auto`, `union`, `blocks`, `integers` and `sketch` give the dense sum's bits, `int8` to
                `int32` a bound that `sums` tells, `agreed:0.05` 5 % of the items. Or a lossless codec for
                whatever is sent.
            secure: of a sum or a mean, show nothing of anybody's value but the result. Among three or more.
            limit: with `secure`, no item of any member is larger, or smaller than its negative; else
                OutOfRange. Floats are rounded to steps, which are the finer the smaller this is. None: 10^6
                for floats, in 64 bits; with a limit, float32 and smaller travel in 32.
            noise: with `secure`, standard deviation of discrete Gaussian noise on each item of the sum.
            colluding: with `secure`, how many members may put together what they have: the noise of the
                others alone is what was asked for. All but two if None.
            accountable: with `secure`, SecureSumFailed says which member gave garbage, in its `ranks` and
                `names`. Items take 8 bytes, in steps of `limit` times 2^-29 (of 16 members 2^-27).
            timeout_s: CallTimeout after so long.
        """
        options = ReduceOptions(op, in_place, algorithm, codec, secure, limit, noise, colluding, accountable)
        return self._run(self._operations.all_reduce, value, options, timeout_s=timeout_s)

    def reduce(
        self,
        value: Any,
        root: int = 0,
        op: str = "sum",
        *,
        codec: str | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """The same; only `root` has the result, the others None.

        With `codec` `union`, `sketch` or `integers`, for sums and means, less than whole arrays travel, and
        only the root decodes: members on the way add chunks that they cannot read. A member that gives None
        has no part in the sum; it adds what the others send, without knowing what that is.
        """
        return self._plain("reduce", value, root, op, codec=codec, timeout_s=timeout_s)

    def reduce_scatter(
        self, values: Sequence[Any], op: str = "sum", *, timeout_s: float | None = None
    ) -> Any:
        """Combine all members' `values[rank]` for every rank; each has the one of its own rank."""
        return self._plain("reduce_scatter", values, op, timeout_s=timeout_s)

    def broadcast(
        self, value: Any = None, root: int = 0, *, in_place: bool = False, timeout_s: float | None = None
    ) -> Any:
        """Bring the root's value to all; the others need give none. With `in_place` each gives one of the
        root's form, into whose arrays it is written, and has it back.
        """
        return self._plain("broadcast", value, root, in_place=in_place, timeout_s=timeout_s)

    def all_gather(self, value: Any, *, timeout_s: float | None = None) -> list[Any]:
        """Bring every member's value to all, by rank."""
        found: list[Any] = self._plain("all_gather", value, timeout_s=timeout_s)
        return found

    def gather(self, value: Any, root: int = 0, *, timeout_s: float | None = None) -> list[Any] | None:
        """Bring every member's value to the root, by rank; the others have None."""
        found: list[Any] | None = self._plain("gather", value, root, timeout_s=timeout_s)
        return found

    def scatter(
        self, values: Sequence[Any] | None = None, root: int = 0, *, timeout_s: float | None = None
    ) -> Any:
        """Bring `values[rank]` of the root to each; the others give none."""
        return self._plain("scatter", values, root, timeout_s=timeout_s)

    def all_to_all(self, values: Sequence[Any], *, timeout_s: float | None = None) -> list[Any]:
        """Bring `values[j]` of each member to member j, who has them by rank."""
        found: list[Any] = self._plain("all_to_all", values, timeout_s=timeout_s)
        return found

    def barrier(self, *, timeout_s: float | None = None) -> None:
        """Return when every member has called this."""
        self._plain("barrier", timeout_s=timeout_s)

    def send(self, value: Any, to: int, tag: int = 0, *, timeout_s: float | None = None) -> None:
        """Send a value to one member, who calls `recv`."""
        self._plain("send", value, to, tag, timeout_s=timeout_s)

    def recv(self, of: int | None = None, tag: int = 0, *, timeout_s: float | None = None) -> Any:
        """The next value with that tag from that member, or from any: has `value`, `rank` and `tag`."""
        return self._plain("recv", of, tag, timeout_s=timeout_s)

    # -- inside ----------------------------------------------------------------------------------------------

    def _plain(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._run(functools.partial(self._operations.run, name), *args, **kwargs)

    def _run(
        self,
        operation: Callable[Concatenate[Call, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run it, and draw how far it is where it takes longer than a second."""
        call = Call(here())

        def draw() -> None:
            bar.show(watching.operation_of(call, self._life.collectives))

        with ProgressBar(lambda: [member.name for member in watching.everybody(self._life)]) as bar:
            return self._thread.run(operation(call, *args, **kwargs), on_wait=draw)
