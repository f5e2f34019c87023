"""Pointers to objects that the peer shares, and objects that the peer has given."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from duetlink.base.quantities import size_text
from duetlink.base.runtime.loop import LoopThread
from duetlink.base.wire.text import harmless
from duetlink.duet.asking.mocks import mock_shown
from duetlink.duet.asking.pointers.columns import Column, columns_of
from duetlink.duet.asking.pointers.remote import Remote
from duetlink.duet.asking.pointers.remote_session import RemoteSession
from duetlink.duet.asking.recording.program import Program
from duetlink.duet.asking.requests.asking import Asking, Question
from duetlink.duet.asking.requests.pending_request import PendingRequest
from duetlink.duet.display import Table, visible
from duetlink.duet.objects.asset import AssetInfo
from duetlink.duet.objects.catalogue import Received
from duetlink.errors import OperationRefused, UnknownAttribute

_MADE_UP = "its mock, made up"
_LONGEST_MOCK = 300  # characters of a mock that is no frame: some lines


class Described:
    """The description of an object in the store: name, type and size, without its content."""

    def __init__(self, info: AssetInfo) -> None:
        self._info = info

    @property
    def name(self) -> str:
        return harmless(self._info.name)

    @property
    def revision(self) -> int:
        """The revision: 1 when first shared under this name, one more each time it is shared again."""
        return self._info.revision

    @property
    def kind(self) -> str:
        """The type, such as `pandas.DataFrame`."""
        return self._info.kind

    @property
    def detail(self) -> str:
        """Shape and dtype in words, such as `569 rows × 31 columns`."""
        return self._info.detail

    @property
    def size_bytes(self) -> int:
        """The size of the encoded object in bytes, before compression."""
        return self._info.size_bytes

    @property
    def description(self) -> str:
        return self._info.description

    @property
    def lossy(self) -> str:
        """The permitted loss of its arrays in transit, in words; empty if they arrive unchanged."""
        return self._info.lossy

    @property
    def tags(self) -> tuple[str, ...]:
        return self._info.tags

    @property
    def budget(self) -> str:
        """The budget for private statistics of it and what is left, in words; empty if it has none."""
        return self._info.budget

    @property
    def mock_words(self) -> str:
        """The way in which its mock was made, in words; empty if it has no mock."""
        return self._info.mock

    def __repr__(self) -> str:
        info = self._info
        return (
            f"<{type(self).__name__} {visible(info.name)!r}: {visible(info.kind)} {visible(info.detail)}, "
            f"{size_text(info.size_bytes)}>"
        )

    def _repr_html_(self) -> str:
        info = self._info
        rows = [("type", f"{info.kind} {info.detail}"), ("size", size_text(info.size_bytes))]
        if info.description:
            rows.append(("description", info.description))
        if info.lossy:
            rows.append(("lossy", info.lossy))
        if info.mock:
            rows.append(("mock", info.mock))
        if info.budget:
            rows.append(("budget", info.budget))
        if info.tags:
            rows.append(("tags", ", ".join(info.tags)))
        return Table(f"{type(self).__name__} {info.name}", ("", ""), rows)._repr_html_()


if TYPE_CHECKING:
    # a type checker accepts a pointer wherever it accepts an array, a frame or a tensor
    _Anything = Any
else:
    _Anything = object


class Pointer(Remote, Described, _Anything):  # type: ignore[misc]
    """A pointer to an object that the peer shares. It holds no content; `get` requests it.

    If the owner gives a mock, the pointer behaves like the object. Operators, functions of NumPy and torch,
    methods and attributes work on the mock at once and are recorded. They return pointers to results, whose
    `get` requests the real result.
    """

    def __init__(
        self, info: AssetInfo, asking: Asking, thread: LoopThread, remote_session: RemoteSession
    ) -> None:
        Described.__init__(self, info)
        self._asking = asking
        self._thread = thread
        self._remote_session = remote_session
        self._handle = remote_session.revisions.hold(info)

    @property
    def duet(self) -> Described:
        """The description of the object: name, kind, detail and so on.

        The pointer has the same properties, but there a column of such a name comes first: `pointer.name` is
        the column `name` if there is one.
        """
        return Described(self._info)

    @property
    def _state(self) -> tuple[Program, Any, int]:  # type: ignore[override]
        mock = self._remote_session.mock(self._info)
        program = self._remote_session.program()
        return program, mock, program.asset(self._info.name, self._info.revision, mock)

    @property
    def _hidden(self) -> int:  # type: ignore[override]
        return self._remote_session.hidden(self._info)

    def __getattr__(self, name: str) -> Any:
        if (name.startswith("_") and name not in ("__dataframe__", "_typ")) or not self._info.mock:
            if name.startswith("_"):
                raise AttributeError(name)
            title = harmless(self._info.name)
            raise UnknownAttribute(f"{name}; {title!r} has no mock, so that only get() works")
        return super().__getattr__(name)

    def __dir__(self) -> list[str]:
        return super().__dir__() if self._info.mock else sorted(object.__dir__(self))

    def __hash__(self) -> int:
        return super().__hash__() if self._info.mock else id(self)

    def __repr__(self) -> str:
        title = Described.__repr__(self)
        if not self._info.mock:
            return f"{title[:-1]}; no mock, so that only .get(reason=…) works>"
        mock = self._remote_session.glance([self._info])[0]
        if mock is None:
            return title
        columns = columns_of(mock)
        if columns:
            return f"{title}\n{_columns_table('', columns)!r}"
        return f"{title[:-1]}; {_MADE_UP}:\n{mock_shown.text_of(mock, _LONGEST_MOCK)}>"

    def _repr_html_(self) -> str:
        shown = Described._repr_html_(self)
        mock = self._remote_session.glance([self._info])[0]
        if mock is None:
            return f"<div>{shown}{_next_step(self._info)}</div>"
        columns = columns_of(mock)
        if columns:
            shown += _columns_table("columns", columns)._repr_html_()
        else:
            shown += mock_shown.html_of(f"{_MADE_UP}:", mock, _LONGEST_MOCK)
        return f"<div>{shown}{_next_step(self._info)}</div>"

    def _check_own(self) -> None:
        raise OperationRefused(
            f"{harmless(self._info.name)!r} is its owner's and cannot be changed; work on a copy, such as "
            ".copy()"
        )

    def _title(self) -> str:
        return f"{harmless(self._info.name)!r} at the owner"

    def request(self, reason: str = "", *, expires_s: float | None = None) -> PendingRequest:
        """Ask the owner for the object and return at once. Awaitable; see PendingRequest.

        After `expires_s` seconds the owner can no longer approve.

        Raises:
            OperationRefused: labels of a mock were renamed on this side, which the owner would not have.
        """
        if self._info.mock:
            self._remote_session.program().echoes.check_lent()
        question = partial(Question, self._info, reason, expires_s=expires_s or 0.0)
        return PendingRequest(question, self._asking, self._thread)

    def get(self, *key: Any, reason: str = "", timeout_s: float | None = None, **more: Any) -> Any:
        """Ask the owner for the object, wait for the answer, and return a copy of it.

        With a key, it is the `get` of the object itself (a frame or a series), and nothing is requested.

        `timeout_s` bounds the whole call: the wait for the answer and the transfer. A timeout or an interrupt
        withdraws the request or cancels the transfer. The owner keeps the object.

        Raises:
            RequestDenied: the owner denied the request; `.reason` has the owner's words.
            RequestTimeout: the answer or the object did not arrive within `timeout_s`.
            AssetNotFound, AssetChanged: it is no longer shared, or another revision is.
            TransferFailed, LinkClosed: it did not arrive; nothing partial is kept.
        """
        if key or more:
            return self._look_up(key, more)
        return self.request(reason).result_or_withdraw(timeout_s)


def _or_column(name: str, described: property) -> property:
    """Make a property that reads the column of that name if there is one, else the description."""

    def read(self: Pointer) -> Any:
        return self[name] if self._info.mock and name in self._columns() else described.fget(self)  # type: ignore[misc]

    return property(read, doc=described.__doc__)


for _name, _described in list(vars(Described).items()):
    if isinstance(_described, property):
        setattr(Pointer, _name, _or_column(_name, _described))


def _columns_table(title: str, columns: list[Column]) -> Table:
    return Table(title, ("column", "dtype", _MADE_UP), columns)


def _next_step(info: AssetInfo) -> str:
    """Return a line of HTML that tells new users what to do with a pointer."""
    asks = "<code>.get(reason=…)</code> asks the owner for it"
    works = "; operations work on the mock at once, and on the real object at the owner" if info.mock else ""
    return f"<div><i>{asks}{works}</i></div>"


class ReceivedObject(Described):
    """An object that the peer has given with `send`. Its content is on this side."""

    def __init__(self, received: Received) -> None:
        super().__init__(received.info)
        self._value = received.value

    def get(self, *, reason: str = "", timeout_s: float | None = None) -> Any:
        """Return the object, the same one each time. Both arguments are ignored: nothing is requested."""
        return self._value
