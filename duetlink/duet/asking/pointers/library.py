"""Libraries whose functions take pointers: `pd = duet.remote(pandas)`, then `pd.concat([a, b])`.

Functions of NumPy and torch take pointers themselves, by `__array_function__` and `__torch_function__`. Other
libraries have no such protocol and need this wrapper.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from duetlink.duet.asking.pointers.formula_model import FormulaMatrices, FormulaModels, is_by_formula
from duetlink.duet.asking.pointers.remote_session import RemoteSession
from duetlink.errors import OperationRefused

_HARMLESS = (int, float, complex, str, type(None))  # constants of a module, such as math.pi, are no data


class Unlisted:
    """An object of a library that is in no allow-list. It can be named; using it raises OperationRefused."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise self._refused()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise self._refused()

    def _refused(self) -> OperationRefused:
        return OperationRefused(
            f"{self._name} is in no list of what may be done with private data; call the library's own for "
            "what is here, and place what it makes, duet.remote(obj), or have a function that calls it "
            "reviewed, @duet.remote"
        )

    def __repr__(self) -> str:
        return f"<{self._name}, which is in no list of what may be done with private data>"


class RemoteLibrary:
    """A module, or an object in it, whose functions and classes may be called on private data."""

    def __init__(self, module: Any, remote_session: RemoteSession, name: str = "") -> None:
        self._module = module
        self._remote_session = remote_session
        self._name = name or module.__name__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._module, name)  # raises what the module itself would
        if isinstance(found, ModuleType):
            return RemoteLibrary(found, self._remote_session)
        if is_by_formula(found):
            return FormulaModels(found.__self__, self._remote_session)
        if self._module.__name__ == "patsy" and name in ("dmatrices", "dmatrix"):
            return FormulaMatrices(name, self._remote_session)
        allowed = self._remote_session.allowed
        within = f"{self._name}.{name}"
        if callable(found) and allowed.name_of(plain := inspect.unwrap(found)) == within:
            found = plain  # torch wraps some of its functions when an optimiser is first used
        if allowed.constant_name(found) is not None and allowed.names(type(found)):
            return RemoteConstant(found, self._remote_session)
        if allowed.name_of(found) is not None:
            return RemoteFunction(found, self._remote_session)
        if allowed.has_members(within):  # such as a distribution, whose methods are in a list
            return RemoteLibrary(found, self._remote_session, within)
        if allowed.constant_name(found) is not None or isinstance(found, _HARMLESS):
            return found
        if isinstance(found, type) and issubclass(found, BaseException):
            return found
        return Unlisted(within)

    def __dir__(self) -> list[str]:
        allowed = self._remote_session.allowed
        return [
            name
            for name, found in ((name, getattr(self._module, name, None)) for name in dir(self._module))
            if not name.startswith("_")
            and (isinstance(found, ModuleType) or allowed.name_of(found) is not None)
        ]

    def __repr__(self) -> str:
        return f"<{self._name} at the owner>"


class RemoteConstant:
    """An object of a library, such as `scipy.stats.norm`, whose methods are called at the owner."""

    def __init__(self, constant: Any, remote_session: RemoteSession) -> None:
        self._constant = constant
        self._remote_session = remote_session

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        constant, remote_session = self._constant, self._remote_session
        found = getattr(constant, name)
        if remote_session.allowed.name_of(found) is not None:
            return RemoteFunction(found, remote_session)
        if remote_session.allowed.method(type(constant), name) is None:
            raise OperationRefused(
                f"{name!r} of {remote_session.allowed.constant_name(constant)} is in no list of what may be "
                "done with private data; dir() shows what there is"
            )

        def call(*arguments: Any, **keywords: Any) -> Any:
            def method(target: Any, *rest: Any, **more: Any) -> Any:
                return getattr(target, name)(*rest, **more)

            return remote_session.program().call(f".{name}", method, (constant, *arguments), keywords)

        return call

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise OperationRefused(
            f"{self!r} is not called; give its parameters to its methods, as in norm.cdf(x, loc, scale)"
        )

    def __dir__(self) -> list[str]:
        return self._remote_session.allowed.names(type(self._constant))

    def __repr__(self) -> str:
        return f"<{self._remote_session.allowed.constant_name(self._constant)} at the owner>"


class RemoteFunction:
    """A function or class of a library; calling it records the call."""

    def __init__(self, function: Any, remote_session: RemoteSession) -> None:
        self._function = function
        self._remote_session = remote_session

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        program = self._remote_session.program()
        name = program.allowed.name_of(self._function)
        assert name is not None
        return program.call(name, self._function, arguments, keywords)

    def __getattr__(self, name: str) -> RemoteFunction | FormulaModels | Unlisted:
        """Return a function of a class, such as `pandas.MultiIndex.from_tuples`."""
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._function, name)
        if is_by_formula(found):
            return FormulaModels(found.__self__, self._remote_session)
        if self._remote_session.allowed.name_of(found) is None:
            return Unlisted(f"{self._function.__module__}.{self._function.__qualname__}.{name}")
        return RemoteFunction(found, self._remote_session)

    def __repr__(self) -> str:
        return f"<{self._function.__module__}.{self._function.__qualname__} at the owner>"
