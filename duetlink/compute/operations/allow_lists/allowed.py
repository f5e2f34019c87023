"""The allow lists: the functions, methods and attributes that a peer may use, with their effects.

Theory. A peer names an operation by text. The text is looked up here and nowhere else, so an operation in no
list does not exist. The lists are files, `lists/LIBRARY.toml`, one per library, made to be read. A list names
functions by their path below the library (`linalg.norm`) and, for each class, methods and attributes. A
method is looked up by the class of the actual object, through its bases, never by what the peer claims.

Another package adds a list by an entry point of the group `duetlink.operations`: its name is the library,
which is a root module, and the package that the entry names contains `LIBRARY.toml`. Such a list can name
only functions and classes of its own library, and cannot change anything that our lists say.

On the wire an operation is `numpy.linalg.norm`, `.mean` (a method), `@T` (an attribute) or `@=grad` (an
attribute that is set).

The effects hold for arrays, tensors and frames whose items are plain values. Arguments that would cause
another effect are refused by `guards.py`, and so is an array that came to hold objects.

Two kinds of statement are promises about secrecy: what may be called at all, and which operations keep rows
apart or average them. Statements about writes and random numbers only matter for right values: a program runs
alone with the objects that it names, so a missing step makes its result wrong and reveals nothing.
"""

from __future__ import annotations

import functools
import importlib
import importlib.resources
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from duetlink.errors import ExtensionFailed, OperationRefused
from duetlink.extensions import OPERATIONS, Extension, extensions

# Effects. The results of the first two are new memory, which they share with no argument.
ELEMENTWISE = "elementwise"  # a row of the result depends on the same row of the arguments only
AGGREGATE = "aggregate"  # an item of the result depends on many rows
OTHER = "other"  # any other effect; the result may be a view of the arguments
IN_PLACE = "in_place"  # changes its first argument
BACKWARD = "backward"  # changes the gradients of the parameters that its first argument was made from
METADATA = "metadata"  # returns shape or type: the mock answers, without a step
LOCAL = "local"  # runs on the mock only, such as a plot
EFFECTS = (ELEMENTWISE, AGGREGATE, OTHER, IN_PLACE, BACKWARD)

# libraries whose lists are in `lists/`
LIBRARIES = ("python", "numpy", "scipy", "torch", "pandas", "polars", "sklearn", "statsmodels", "duetlink")


@functools.cache
def libraries() -> tuple[str, ...]:
    """Return all libraries that have a list, from here or from another package. Raise ExtensionFailed."""
    return (*LIBRARIES, *registered())


def registered() -> Mapping[str, Extension]:
    """Return the libraries for which another package has a list. Raise ExtensionFailed."""
    return extensions(OPERATIONS, frozenset(LIBRARIES) | sys.stdlib_module_names)


@dataclass(frozen=True, slots=True)
class Members:
    """The allowed methods and attributes of one class."""

    methods: Mapping[str, str]  # name -> effect, METADATA or LOCAL
    attributes: Mapping[str, str]  # name -> OTHER (a part of the object, fetched by a step) or METADATA
    settable: frozenset[str]
    random: frozenset[str] = frozenset()  # methods that may draw from the process's shared generator


@dataclass(frozen=True, slots=True)
class Function:
    """One function or class that may be called."""

    name: str
    call: Callable[..., Any]
    effect: str
    # positions of the arguments that it changes; (0,) for nearly all that are IN_PLACE
    changes: tuple[int, ...] = ()


class Allowed:
    """The lists of some libraries, resolved to the installed objects. Loading a list imports its library."""

    def __init__(self, libraries: Iterable[str] = ()) -> None:
        self._functions: dict[str, Function] = {}
        self._names: dict[Any, str] = {}  # function or class -> name
        self._constants: dict[str, Any] = {}
        self._constant_names: dict[int, str] = {}  # by `id`, since not all constants are hashable
        self._members: dict[type, Members] = {}
        self._merged: dict[type, Members] = {}  # the members of a class and its bases
        self._loaded: set[str] = set()
        for library in libraries:
            self.load(library)

    @classmethod
    def installed(cls) -> Allowed:
        """Return the lists of all installed libraries. Raise ExtensionFailed."""
        allowed = cls()
        for library in libraries():
            try:
                allowed.load(library)
            except ExtensionFailed:
                raise
            except ImportError:
                continue
        return allowed

    @property
    def classes(self) -> list[type]:
        """The classes that the loaded lists name."""
        return list(self._members)

    def load(self, library: str) -> None:
        """Add the list of one of `libraries`. Names that the installed version lacks are skipped.

        Raises:
            LookupError: there is no such list.
            ImportError: the library is not installed.
            ExtensionFailed: a list of another package names an object that is not its library's own.
        """
        if library in self._loaded:
            return
        if library not in libraries():
            raise LookupError(f"there is no list for {library!r}, only for {', '.join(libraries())}")
        listed = read_list(library)
        module = listed["module"]
        changes = listed.get("changes", {})
        for effect, names in listed.get("functions", {}).items():
            first = (0,) if effect == IN_PLACE else ()
            for name in names:
                full = f"{module}.{name}" if module else name
                call = _resolve(full)
                if call is not None:
                    changed = tuple(changes.get(name, first))
                    self._functions[full] = Function(full, call, effect, changed)
                    _check_own(full, self._names.setdefault(call, full))
        for name in listed.get("constants", ()):
            full = f"{module}.{name}" if module else name
            constant = _resolve(full)
            if constant is not None:
                self._constants[full] = constant
                _check_own(full, self._constant_names.setdefault(id(constant), full))
        for name, lists in listed.get("classes", {}).items():
            class_ = _resolve(f"{module}.{name}" if module else name)
            if class_ is not None:
                _check_class(library, class_)
                self._members[class_] = _members(lists)
        self._merged.clear()
        self._loaded.add(library)

    # -- functions and constants -----------------------------------------------------------------------------

    def function(self, name: str) -> Function:
        """Return the function of that name; raise OperationRefused if no list has it."""
        try:
            return self._functions[name]
        except (KeyError, TypeError):
            raise OperationRefused(f"{name} is in no list of what may be called on private data") from None

    def has_members(self, name: str) -> bool:
        """Return True if any function below this path may be called, such as one of `scipy.stats.norm`."""
        return any(full.startswith(f"{name}.") for full in self._functions)

    def functions(self) -> Iterable[Function]:
        """Return all functions that may be called."""
        return self._functions.values()

    def name_of(self, function: Any) -> str | None:
        """Return the wire name of a function or class; None if it may not be called."""
        try:
            return self._names.get(function)
        except TypeError:  # not hashable, so it is no function
            return None

    def constant(self, name: str) -> Any:
        """Return the constant of that name; raise OperationRefused if no list has it."""
        try:
            return self._constants[name]
        except (KeyError, TypeError):
            raise OperationRefused(f"{name} is in no list of what may be given as an argument") from None

    def constant_name(self, constant: Any) -> str | None:
        """Return the wire name of a constant such as `numpy.float32`; None if no list has it.

        A NumPy dtype without further parameters has the name of its item type.
        """
        name = self._constant_names.get(id(constant))
        if name is None and type(constant).__module__ == "numpy.dtypes" and constant.isbuiltin == 1:
            name = self._constant_names.get(id(constant.type))
        return name

    # -- methods and attributes ------------------------------------------------------------------------------

    def method(self, class_: type, name: str) -> str | None:
        """Return the effect of a method of this class, METADATA or LOCAL; None if it may not be called."""
        return self._of(class_).methods.get(name)

    def attribute(self, class_: type, name: str) -> str | None:
        """Return OTHER or METADATA for an attribute of this class; None if it may not be read."""
        return self._of(class_).attributes.get(name)

    def settable(self, class_: type, name: str) -> bool:
        return name in self._of(class_).settable

    def draws(self, class_: type, name: str) -> bool:
        """Return True if a method may draw from the random number generator that the whole process shares."""
        return name in self._of(class_).random

    def names(self, class_: type) -> list[str]:
        """Return the methods and attributes that an object of this class has here, for completion."""
        members = self._of(class_)
        found = {*members.attributes, *(name for name in members.methods if hasattr(class_, name))}
        return sorted(name for name in found if not name.startswith("__"))

    def _of(self, class_: type) -> Members:
        """Merge the lists of a class and its bases; a subclass overrides its bases."""
        merged = self._merged.get(class_)
        if merged is None:
            bases = [self._members[base] for base in reversed(class_.__mro__) if base in self._members]
            merged = self._merged[class_] = Members(
                {name: effect for members in bases for name, effect in members.methods.items()},
                {name: effect for members in bases for name, effect in members.attributes.items()},
                frozenset().union(*(members.settable for members in bases)),
                frozenset().union(*(members.random for members in bases)),
            )
        return merged


def _check_own(full: str, known: str) -> None:
    """Raise ExtensionFailed if another package's list and a second list name one object.

    `full` is its name in the list being loaded, `known` its name in the list that was loaded first.
    """
    for name, other in ((full, known), (known, full)):
        extension = registered().get(name.partition(".")[0])
        if extension is not None and other.partition(".")[0] != extension.name:
            raise extension.failed(f"its list has the object {name}, which another list has as {other}")


def _check_class(library: str, class_: type) -> None:
    extension = registered().get(library)
    if extension is not None and class_.__module__.partition(".")[0] != library:
        raise extension.failed(
            f"its list has {class_.__module__}.{class_.__name__}, a class of another library"
        )


@functools.cache
def read_list(library: str) -> dict[str, Any]:
    """Return the parsed list of one of `libraries`, cached; do not change it. Raise ExtensionFailed."""
    if (extension := registered().get(library)) is not None:
        return _read_other(extension)
    text = importlib.resources.files("duetlink.compute.operations") / "lists" / f"{library}.toml"
    return tomllib.loads(text.read_text("utf-8"))


@functools.cache
def listed_functions() -> frozenset[str]:
    """Return the names of all listed functions, as they are written in a step: `numpy.mean`."""
    found: set[str] = set()
    for library in libraries():
        listed = read_list(library)
        module = listed["module"]
        for names in listed.get("functions", {}).values():
            found.update(f"{module}.{name}" if module else name for name in names)
    return frozenset(found)


def _read_other(extension: Extension) -> dict[str, Any]:
    try:
        file = importlib.resources.files(extension.entry.module) / f"{extension.name}.toml"
        listed = tomllib.loads(file.read_text("utf-8"))
    except Exception as error:  # importing the package may raise anything
        raise extension.failed(f"its list cannot be read: {type(error).__name__}: {error}") from error
    module = str(listed.get("module"))
    if module.partition(".")[0] != extension.name:
        raise extension.failed(
            f"its list is for {module!r}, and not for {extension.name!r} or a module in it"
        )
    return listed


def _resolve(path: str) -> Any:
    """Return the object at a dotted path; None if the installed version has none."""
    module, _, rest = path.partition(".")
    found = importlib.import_module(module)
    for step in rest.split("."):
        try:
            found = getattr(found, step)
        except AttributeError:
            module = f"{module}.{step}"
            try:
                found = importlib.import_module(module)
            except ImportError:
                return None
            continue
        module = f"{module}.{step}"
    return found


def _members(lists: Mapping[str, list[str]]) -> Members:
    methods = {name: effect for effect in (*EFFECTS, LOCAL) for name in lists.get(effect, ())}
    methods |= dict.fromkeys(lists.get("metadata_methods", ()), METADATA)
    attributes = dict.fromkeys(lists.get("attributes", ()), OTHER)
    attributes |= dict.fromkeys(lists.get("metadata", ()), METADATA)
    settable, random = frozenset(lists.get("settable", ())), frozenset(lists.get("random", ()))
    return Members(methods, attributes, settable, random)
