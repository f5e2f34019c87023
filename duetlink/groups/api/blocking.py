"""A group's operations as blocking calls with a progress bar."""

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
    """The blocking operations. `Group` documents what all of them have in common."""

    def __init__(self, life: GroupLife, thread: LoopThread, operations: Operations) -> None:
        self._life = life
        self._thread = thread
        self._operations = operations

    def admit(self, *, timeout_s: float | None = None) -> None:
        """Let waiting newcomers into the group. All members call it; `average` does it by itself."""
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
        """Return the mean of all members' values, with the same bits at every member.

        Args:
            value: arrays as for `all_reduce`, for which new arrays are returned; or a torch module, whose
                parameters and buffers are replaced once all means are computed. Bools have no mean: they have
                to be equal at all members, else UnsupportedValue names them.
            weight: the weight of this member's value, such as its number of rows. All members give one, or
                none does. A value with weight 0 does not count.
            secure, limit, colluding, accountable: as for `all_reduce`. A secure weight is 0, or from 2^-10 to
                2^20, and all members learn the sum of the weights.
            timeout_s: raise CallTimeout after this many seconds; the value is then unchanged.

        In a group without a fixed size, waiting newcomers enter first.
        """
        options = ReduceOptions(
            "mean", secure=secure, limit=limit, colluding=colluding, accountable=accountable
        )
        return self._run(self._operations.average, value, weight, options, timeout_s=timeout_s)

    def sync(self, state: Any, *, timeout_s: float | None = None) -> Any:
        """Return the state that most members hold; in a tie, the one of the lowest rank.

        SHA-256 digests are compared, and only arrays that differ are sent. `state` is an array, a dict of
        arrays, or a torch module, which is changed in place.
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
        """Combine all members' values; every member gets the result, with the same bits.

        Args:
            value: with the same shapes and dtypes at all members. Or a function of (rank, size) that returns
                the value; it is called in another thread when the operation begins, for a value that depends
                on the members.
            op: sum, mean, min, max, prod, and, or, xor. A mean of integers is rounded to the nearest, halves
                up.
            in_place: write the result into the value's own arrays. They are unchanged if the call fails.
            algorithm: one that `explain` lists, the same at all members; by default the fastest.
            codec: a way to send fewer bytes for a sum or a mean, the same at all members. `auto`, `union`,
                `blocks`, `integers` and `sketch` give the same bits as without a codec; `int8` to `int32`
                give an approximation with a bound that `sums` reports; `agreed:0.05` sums 5 % of the items.
                Or the name of a lossless codec, which compresses each message.
            secure: for a sum or a mean of at least three members, reveal nothing of a member's value except
                what follows from the result.
            limit: with `secure`, the largest magnitude of an item; a larger item raises OutOfRange. Floats
                are rounded to steps that are proportional to it. None means 10^6 for floats, sent as 64 bits;
                with a limit, float32 and smaller types are sent as 32 bits.
            noise: with `secure`, the standard deviation of discrete Gaussian noise on each item of the sum.
            colluding: with `secure`, the number of members that may share what they know; the noise of the
                others alone has the requested deviation. None means all but two.
            accountable: with `secure`, SecureSumFailed names the member that gave garbage, in its `ranks` and
                `names`. Items take 8 bytes, in steps of `limit` times 2^-29 (for 16 members 2^-27).
            timeout_s: raise CallTimeout after this many seconds.
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
        """Combine all members' values as `all_reduce` does; only `root` gets the result, the others None.

        With the `codec` `union`, `sketch` or `integers`, sums and means send less than whole arrays, and only
        the root decodes: members on the way add encoded chunks without decoding them. A member that gives
        None contributes nothing to the sum, and only adds the chunks of the others.
        """
        return self._plain("reduce", value, root, op, codec=codec, timeout_s=timeout_s)

    def reduce_scatter(
        self, values: Sequence[Any], op: str = "sum", *, timeout_s: float | None = None
    ) -> Any:
        """Combine all members' `values[rank]` for every rank; each member gets the result of its own rank."""
        return self._plain("reduce_scatter", values, op, timeout_s=timeout_s)

    def broadcast(
        self, value: Any = None, root: int = 0, *, in_place: bool = False, timeout_s: float | None = None
    ) -> Any:
        """Return the root's value at every member; the others need not give a value.

        With `in_place`, each member gives a value with the root's shapes and dtypes, into which the root's
        value is written, and which is returned.
        """
        return self._plain("broadcast", value, root, in_place=in_place, timeout_s=timeout_s)

    def all_gather(self, value: Any, *, timeout_s: float | None = None) -> list[Any]:
        """Return the values of all members, by rank."""
        found: list[Any] = self._plain("all_gather", value, timeout_s=timeout_s)
        return found

    def gather(self, value: Any, root: int = 0, *, timeout_s: float | None = None) -> list[Any] | None:
        """Return the values of all members, by rank, at the root; None at the others."""
        found: list[Any] | None = self._plain("gather", value, root, timeout_s=timeout_s)
        return found

    def scatter(
        self, values: Sequence[Any] | None = None, root: int = 0, *, timeout_s: float | None = None
    ) -> Any:
        """Return the root's `values[rank]` at each rank; the other members give no values."""
        return self._plain("scatter", values, root, timeout_s=timeout_s)

    def all_to_all(self, values: Sequence[Any], *, timeout_s: float | None = None) -> list[Any]:
        """Send `values[j]` to rank j; returns the values that all members have sent to this one, by rank."""
        found: list[Any] = self._plain("all_to_all", values, timeout_s=timeout_s)
        return found

    def barrier(self, *, timeout_s: float | None = None) -> None:
        """Wait until every member has called this."""
        self._plain("barrier", timeout_s=timeout_s)

    def send(self, value: Any, to: int, tag: int = 0, *, timeout_s: float | None = None) -> None:
        """Send a value to one member, which receives it by `recv`; other members take no part."""
        self._plain("send", value, to, tag, timeout_s=timeout_s)

    def recv(self, of: int | None = None, tag: int = 0, *, timeout_s: float | None = None) -> Any:
        """Return the next message with this tag from one member, or from any: `value`, `rank` and `tag`."""
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
        """Run an operation on the loop; draw its progress here if it takes longer than a second."""
        call = Call(here())

        def draw() -> None:
            bar.show(watching.operation_of(call, self._life.collectives))

        with ProgressBar(lambda: [member.name for member in watching.everybody(self._life)]) as bar:
            try:
                return self._thread.run(operation(call, *args, **kwargs), on_wait=draw, here=True)
            finally:
                call.copies.join()
