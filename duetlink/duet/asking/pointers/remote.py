"""Pointers that behave like the object they point to: each operation runs on the mock and is recorded.

This uses Python's own protocols: operators, `__array_ufunc__` and `__array_function__` of NumPy,
`__torch_function__`, and `__getattr__` for the methods and attributes in the allow-lists.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar

from duetlink.attributes import nearest
from duetlink.compute.operations.allow_lists.allowed import BACKWARD, IN_PLACE, LOCAL, METADATA
from duetlink.compute.operations.sizes.lookup import hidden_after, hidden_then
from duetlink.compute.operations.sizes.mask import COLUMNS, NAMES, trimmed
from duetlink.compute.operations.steps.finished import finished
from duetlink.compute.prep.frames import PREPARE, prepare
from duetlink.data.prep.spec import PrepSpec
from duetlink.duet.asking.grammar.frame_evaluation import FrameMethod, methods_of
from duetlink.duet.asking.mocks import mock_shown
from duetlink.duet.asking.mocks.mock_tensors import is_tensor
from duetlink.duet.asking.pointers import called_here
from duetlink.duet.asking.pointers.result_requests import ResultRequests
from duetlink.duet.asking.recording import mock_used, sizes
from duetlink.duet.asking.recording.iteration import LOOPS, items_of, loop_of
from duetlink.duet.asking.recording.program import FLOATS, PLAIN, Program, mock_of, write_float
from duetlink.errors import OperationRefused, PrivateValue, UnknownAttribute

if TYPE_CHECKING:
    import numpy as np


T = TypeVar("T")


class Remote:
    """Base class of pointers to assets and to results. It holds a mock, never the real object."""

    __slots__ = ()
    _is_remote: ClassVar[bool] = True
    __pandas_priority__: ClassVar[int] = 5000  # above 4000 pandas leaves operators to the other operand
    _state: tuple[Program, Any, int]  # its mock, and its id in the program
    _hidden: int  # which of its sizes depend on the data: compute/operations/sizes/mask.py

    @property
    def _program(self) -> Program:
        return self._state[0]

    @property
    def _mock(self) -> Any:
        return self._state[1]

    @property
    def _id(self) -> int:
        return self._state[2]

    @property
    def mock(self) -> Any:
        """The made-up stand-in. Everything that this pointer shows comes from it."""
        program, mock, id_ = self._state
        program.echoes.hand_out(mock, id_)
        return mock

    def prep(self, spec: PrepSpec) -> Any:
        """Prepare this frame at its owner as `spec` (a `duetlink.Prep`) says; return a pointer to the result.

        With a split, the result has a column `train`. The mock is prepared here by the same code.

        Raises:
            OperationRefused: this is no frame of pandas or polars, or `spec` is no preparation.
            PrepError: the preparation does not fit the mock.
        """
        if not isinstance(spec, PrepSpec):
            raise OperationRefused(f"a frame is prepared by a duetlink.Prep, not by a {type(spec).__name__}")
        return self._program.call(PREPARE, prepare, (self, spec.to_json()), {})

    @property  # type: ignore[misc]
    def __class__(self) -> type[Self]:
        """The class, for `isinstance`. Raises PrivateValue for Polars and `equals` of pandas."""
        if mock_used.is_told_apart():
            mock_used.refuse_class(self._title(), self._program.allowed)
        return type(self)

    # -- attributes ------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name == "__dataframe__" and hasattr(self._mock, "columns"):
            # plotting libraries use this protocol to read a whole foreign frame
            raise PrivateValue(
                f"a library asked for the data of {self._title()}: give it the mock, .mock, or "
                "what .get(reason=…) brings"
            )
        if name.startswith("_"):
            if name in ("__sklearn_clone__", "__sklearn_tags__") and hasattr(self._mock, "get_params"):
                raise OperationRefused(
                    f"a local estimator cannot hold {self._title()}: put it together of plain ones, and "
                    "place the whole, as in duet.remote(make_pipeline(StandardScaler(), SVC())).fit(x, y)"
                )
            if name == "_typ":
                mock_used.check_kind(self._title(), self._program.allowed)
            raise AttributeError(name)
        if name in called_here.METHODS:
            method = called_here.method_of(self, name, _Method(self, name))
            if method is not None:
                return method
        mock, program = self._mock, self._program
        kind = type(mock)
        effect = program.allowed.method(kind, name)
        if effect is not None:
            if effect == METADATA:
                sizes.check(self, name)
            if effect == LOCAL:
                mock_used.warn_shown(name, self._title())
            if effect in (METADATA, LOCAL):
                return getattr(mock, name)
            if effect in (IN_PLACE, BACKWARD):
                self._check_own()
            return _Method(self, name)
        effect = program.allowed.attribute(kind, name)
        if effect == METADATA:
            if name == "plot":
                mock_used.warn_shown(name, self._title())
            return sizes.metadata(self, name)
        if effect is not None:
            value, operation = finished(getattr(mock, name)), f"@{name}"
            if value is None and is_tensor(mock):  # `.grad` before the first backward()
                return None
            hidden = hidden_after(operation, (self,), {}, (mock,), value, program.allowed)
            made = program.record_result(operation, [f"[{self._id}]"], {}, value, hidden)
            if name in ("iloc", "loc", "at"):
                made._table = self
            return made
        if name in getattr(getattr(mock, "obj", mock), "columns", ()):  # df.age, df.groupby("town").age
            return self[name]
        if name == "type" and hasattr(mock, "dim"):
            return self._torch_type
        if name in LOOPS and (loop := loop_of(self, name)) is not None:
            return loop
        if name in methods_of(mock):
            return FrameMethod(self, name)
        if hasattr(mock, name):
            raise UnknownAttribute(
                f"{name!r} of a {kind.__name__} is in no list of what may be done with private data; ask "
                f"for the object and go on with what comes: .get(reason=…).{name}. dir() shows what there is"
            )
        near = nearest(name, (each for each in dir(self) if not each.startswith("_")))
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "dir() shows what there is"
        raise UnknownAttribute(f"{name!r} of a {kind.__name__} does not exist; {hint}")

    def __dir__(self) -> list[str]:
        listed = self._program.allowed.names(type(self._mock))
        columns = [name for name in self._columns() if name.isidentifier()]
        return sorted({*object.__dir__(self), *listed, *methods_of(self._mock), *columns})

    def _ipython_key_completions_(self) -> list[str]:
        """Return the completions that IPython offers inside `frame[…]`."""
        return self._columns()

    def _columns(self) -> list[str]:
        """Return the column names of a frame or of its groups; none if they depend on the data."""
        if self._hidden & (COLUMNS | NAMES):
            return []
        mock = self._mock
        return [name for name in getattr(getattr(mock, "obj", mock), "columns", ()) if isinstance(name, str)]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
            return
        self._check_own()
        program = self._program
        if not program.allowed.settable(type(self._mock), name):
            raise OperationRefused(_not_settable(self._mock, name))
        encoded = program.encode(value)
        hidden_then(f"@={name}", (self, value), {}, (self._mock, mock_of(value)))
        setattr(self._mock, name, mock_of(value))
        program.record(0, f"@={name}", [f"[{self._id}]", encoded])
        program.drop_arguments()

    if TYPE_CHECKING:
        # defined in a loop at the end of this module
        def __add__(self, other: Any) -> Any: ...
        def __radd__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...
        def __rsub__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __rmul__(self, other: Any) -> Any: ...
        def __truediv__(self, other: Any) -> Any: ...
        def __rtruediv__(self, other: Any) -> Any: ...
        def __floordiv__(self, other: Any) -> Any: ...
        def __rfloordiv__(self, other: Any) -> Any: ...
        def __mod__(self, other: Any) -> Any: ...
        def __rmod__(self, other: Any) -> Any: ...
        def __pow__(self, other: Any) -> Any: ...
        def __rpow__(self, other: Any) -> Any: ...
        def __matmul__(self, other: Any) -> Any: ...
        def __rmatmul__(self, other: Any) -> Any: ...
        def __and__(self, other: Any) -> Any: ...
        def __rand__(self, other: Any) -> Any: ...
        def __or__(self, other: Any) -> Any: ...
        def __ror__(self, other: Any) -> Any: ...
        def __xor__(self, other: Any) -> Any: ...
        def __rxor__(self, other: Any) -> Any: ...
        def __lshift__(self, other: Any) -> Any: ...
        def __rlshift__(self, other: Any) -> Any: ...
        def __rshift__(self, other: Any) -> Any: ...
        def __rrshift__(self, other: Any) -> Any: ...
        def __eq__(self, other: object) -> Any: ...
        def __ne__(self, other: object) -> Any: ...
        def __lt__(self, other: Any) -> Any: ...
        def __le__(self, other: Any) -> Any: ...
        def __gt__(self, other: Any) -> Any: ...
        def __ge__(self, other: Any) -> Any: ...
        def __neg__(self) -> Any: ...
        def __pos__(self) -> Any: ...
        def __invert__(self) -> Any: ...
        def __abs__(self) -> Any: ...
        def __round__(self, digits: int | None = None) -> Any: ...

    # -- containers and plain values -------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        if callable(key) or type(key) is tuple:
            key = called_here.key_of(self, key)
        return self._program.call("operator.getitem", operator.getitem, (self, key), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) is int and hasattr(type(value), "_is_remote") and getattr(self._mock, "ndim", 1) > 1:
            mock_used.check_row_set(self._title())
        self._check_own()
        if callable(key) or type(key) is tuple:
            key = called_here.key_of(self, key)
        self._program.call("operator.setitem", operator.setitem, (self, key, value), {})

    def __delitem__(self, key: Any) -> None:
        self._check_own()
        self._program.call("operator.delitem", operator.delitem, (self, key), {})

    def __len__(self) -> int:
        return sizes.length(self)

    def __iter__(self) -> Iterator[Any]:
        return items_of(self)

    def __contains__(self, item: Any) -> bool:
        if hasattr(self._mock, "columns"):
            sizes.check(self, "columns")
            return item in self._mock
        return self._refuse("in")

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        kind = type(self._mock)
        if self._program.allowed.method(kind, "__call__") in (None, LOCAL):
            mock_used.check_asked(self._title(), self._program.allowed)
            # refused at once: the result could be written to, and the owner would not see that
            raise OperationRefused(f"a {kind.__name__} may not be called at the owner; use its items, x[…]")
        return _Method(self, "__call__")(*arguments, **keywords)

    def __bool__(self) -> bool:
        return self._drawn(bool, "bool")

    def __int__(self) -> int:
        return self._drawn(int, "int")

    def __float__(self) -> float:
        return self._drawn(float, "float")

    def __complex__(self) -> complex:
        self._refuse("complex")

    def __index__(self) -> int:
        self._refuse("an index")

    def _drawn(self, make: Callable[[Any], T], what: str) -> T:
        """Return the mock's value with a warning if a plotting library asks; raise for any other caller."""
        if not mock_used.is_for_a_drawing():
            self._refuse(what)
        mock_used.hand_out(self._title(), self._program.allowed)
        return make(self._mock)

    def __divmod__(self, other: Any) -> Any:
        return self._program.call("builtins.divmod", divmod, (self, other), {})

    def __rdivmod__(self, other: Any) -> Any:
        return self._program.call("builtins.divmod", divmod, (other, self), {})

    def _look_up(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call the object's own `.get(key)` (of a dict or frame) instead of requesting the object."""
        mock = self._mock
        if self._program.allowed.method(type(mock), "get") is None:
            raise TypeError(
                f"get() of a {type(mock).__name__} takes no key: .get(reason=…) asks for all of it"
            )
        key = arguments[0] if arguments else keywords.get("key")
        labels = mock.index if hasattr(mock, "iloc") else mock
        depends = not hasattr(mock, "columns") and hasattr(labels, "__contains__") and type(key) in PLAIN
        if depends and key not in labels:
            raise PrivateValue(
                f"whether {self._title()} has {key!r} is not known here, as its labels depend on the data"
            )
        return _Method(self, "get")(*arguments, **keywords)

    def _private_hash(self: object) -> int:
        """Raise PrivateValue: sets, dicts and counters would look up the pointer instead of its value."""
        assert isinstance(self, Remote)
        mock_used.warn_hashed(self._title())
        raise PrivateValue(
            f"the hash of {self._title()} is not known here, so that it is no key, and in no set: ask for it "
            "with .get(reason=…), or look for it at the owner: .isin(…), .unique(), .value_counts()"
        )

    def _check_own(self) -> None:
        """Raise OperationRefused if the object may not be changed; results may."""

    def __format__(self, specification: str) -> str:
        if specification:
            self._refuse(f"the text in the format {specification!r}")
        return str(self)

    def _refuse(self, what: str) -> NoReturn:
        mock_used.check_asked(self._title(), self._program.allowed)
        raise PrivateValue(
            f"{what} of {self._title()} is not known here: ask for it with .get(reason=…), or decide by its "
            "mock: .mock"
        )

    # -- NumPy and torch -------------------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        import numpy as np

        mock_used.hand_out(self._title(), self._program.allowed)
        return np.asarray(self._mock, dtype=dtype)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        program = self._program
        name = program.allowed.name_of(function)
        if name is None:
            raise OperationRefused(f"numpy.{function.__name__} may not be called on private data")
        if method == "__call__":
            return program.call(name, function, inputs, keywords)
        return program.call(f"{name}.{method}", getattr(function, method), inputs, keywords)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, arguments: Any, keywords: Any
    ) -> Any:
        name = self._program.allowed.name_of(function)
        if name is None:
            raise OperationRefused(
                f"{function.__module__}.{function.__name__} may not be called on private data"
            )
        return self._program.call(name, function, arguments, keywords)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        from duetlink.duet.asking.pointers.tensor import torch_function

        return torch_function(function, arguments, keywords or {})

    def _torch_type(self, *arguments: Any, **keywords: Any) -> Any:
        """Call `tensor.type(…)` for an asset that is a tensor."""
        import torch

        return self.__torch_function__(torch.Tensor.type, (), (self, *arguments), keywords)

    # -- copies ----------------------------------------------------------------------------------------------

    def __copy__(self) -> Any:
        mock, program = self._mock, self._program
        if is_tensor(mock):
            raise OperationRefused(
                "copy.copy of a tensor makes another one in the same memory: take x.clone() for a copy, or x "
                "itself"
            )
        for name in ("copy", "clone"):
            if program.allowed.method(type(mock), name) is not None:
                return _Method(self, name)()
        if hasattr(mock, "__dict__"):
            raise OperationRefused(
                f"a {type(mock).__name__} at the owner is not copied: make another one, as this one was made"
            )
        return self  # it never changes

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        raise OperationRefused("what is at the owner is copied there, with .copy() or .clone()")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise OperationRefused("a pointer is good in this duet only: save what .get() returns")

    # -- how it looks ----------------------------------------------------------------------------------------

    def _title(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self._title()}; {sizes.mock_words(self)}:\n{mock_shown.text_of(self._mock)}>"

    def _repr_html_(self) -> str | None:
        return mock_shown.html_of(f"{self._title()}; {sizes.mock_words(self)}:", self._mock)


class Result(ResultRequests, Remote):
    """A pointer to what an operation has made at the owner."""

    __slots__ = ("__weakref__", "_hidden", "_state", "_table")
    _table: Remote  # set on the results of `.loc` and `.iloc`: the frame or series that they index

    def __init__(self, program: Program, mock: Any, id_: int) -> None:
        object.__setattr__(self, "_state", (program, mock, id_))

    def __del__(self) -> None:
        program, _, id_ = self._state
        program.drop(id_)
        program.echoes.own.discard(id_)

    def _title(self) -> str:
        return f"result {self._id}, a {type(self._mock).__name__} at the owner"


class _Method:
    """A bound method of a private object; calling it records a step."""

    __slots__ = ("_name", "_remote")

    def __init__(self, remote: Remote, name: str) -> None:
        self._remote = remote
        self._name = name

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        name, program = self._name, self._remote._program
        try:
            return program.call(
                f".{name}",
                lambda target, *rest, **more: getattr(target, name)(*rest, **more),
                (self._remote, *arguments),
                keywords,
            )
        except OperationRefused:  # if a library made the call, the message has to name the library's function
            mock_used.check_asked(self._remote._title(), program.allowed)
            raise

    def __repr__(self) -> str:
        return f"<method {self._name} of {self._remote._title()}>"


def _not_settable(mock: Any, name: str) -> str:
    words = f"{name!r} of a {type(mock).__name__} cannot be set from afar"
    if hasattr(mock, "columns"):
        return f"{words}: a column is set with frame[{name!r}] = …"
    if name in ("name", "names") and hasattr(mock, "nlevels"):
        return f"{words}: name the rows with frame = frame.rename_axis(…), the columns with columns=…"
    return f"{words}: what changes an object is a method of it, or an item that is set"


_new = object.__new__
_put = Result.__dict__["_state"].__set__
_put_hidden = Result.__dict__["_hidden"].__set__


def _binary(
    name: str, function: Callable[[Any, Any], Any], *, swapped: bool = False
) -> Callable[[Any, Any], Any]:
    """Make the method for a binary operator.

    This is the fast path for loops over plain operations: it avoids every call that it can.
    """
    operation = f"operator.{name}"
    by_item = name != "matmul"
    head = f',"{operation}",['

    def operate(self: Remote, other: Any) -> Any:
        program, mine, id_ = self._state
        hidden = self._hidden
        kind = type(other)
        if type(self) is not Result and is_tensor(mine):  # an asset; torch's settings have to be recorded
            return program.call(operation, function, (other, self) if swapped else (self, other), {})
        if kind is float:
            theirs, text = other, FLOATS.get(other) or write_float(other)
        elif kind is int:
            theirs, text = other, other
        elif (
            by_item
            and hasattr(kind, "_is_remote")
            and other._program is program
            and other._mock is not other  # a tensor pointer is its own mock
            and not hasattr(mine, "index")  # pandas matches rows by their labels
        ):
            theirs, text = other._mock, f"[{other._id}]"
            if theirs_hidden := other._hidden:
                hidden |= theirs_hidden
        else:
            return program.call(operation, function, (other, self) if swapped else (self, other), {})
        made = program.next_id()
        if swapped:
            mock = function(theirs, mine)
            program.steps.append(f"[{made}{head}{text},[{id_}]]]")
        else:
            mock = function(mine, theirs)
            program.steps.append(f"[{made}{head}[{id_}],{text}]]")
        if made >= program.alarm:
            program.move_to_trace()
        if type(mock) is not type(mine) or type(self) is not Result:  # a tensor's result has its own class
            return program.wrap(mock, made, trimmed(hidden, mock))
        result = _new(Result)
        _put(result, (program, mock, made))
        _put_hidden(result, hidden)
        return result

    return operate


def _unary(name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    operation = f"operator.{name}"

    def operate(self: Remote) -> Any:
        return self._program.record_result(
            operation, (f"[{self._id}]",), {}, function(self._mock), self._hidden
        )

    return operate


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    """Make the method for `x += y`: an array, frame or tensor is changed in place, others are replaced."""
    operation, function = f"operator.i{name}", getattr(operator, f"i{name}")

    def operate(self: Remote, other: Any) -> Any:
        kind = type(self._mock)
        if not hasattr(kind, "__setitem__") or kind.__module__.startswith("polars"):
            return NotImplemented  # Python goes on with `x = x + y`
        self._program.call(operation, function, (self, other), {})
        return self

    return operate


_BINARY = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift"
_COMPARISONS = "eq ne lt le gt ge"
_UNARY = "neg pos invert abs"

for _name in _BINARY.split():
    _bare = _name.rstrip("_")
    setattr(Remote, f"__{_bare}__", _binary(_name, getattr(operator, _name)))
    setattr(Remote, f"__r{_bare}__", _binary(_name, getattr(operator, _name), swapped=True))
    setattr(Remote, f"__i{_bare}__", _in_place(_bare))
for _name in _COMPARISONS.split():
    setattr(Remote, f"__{_name}__", _binary(_name, getattr(operator, _name)))
for _name in _UNARY.split():
    setattr(Remote, f"__{_name}__", _unary(_name, getattr(operator, _name)))
Remote.__hash__ = Remote._private_hash  # type: ignore[method-assign]  # `__eq__` has taken it away


def _rounded(self: Remote, digits: int | None = None) -> Any:
    return self._program.call("builtins.round", round, (self,) if digits is None else (self, digits), {})


Remote.__round__ = _rounded  # type: ignore[method-assign]
