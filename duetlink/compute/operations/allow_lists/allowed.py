"""The allow-lists: which functions, methods and attributes a peer may use, and what each does to its
arguments.

Theory. A peer names an operation by text; the text is looked up here and nowhere else, so that what is in no
list does not exist. The lists are files, `lists/LIBRARY.toml`, one per library, made to be read. A list names
functions by their path below the library (`linalg.norm`) and, for each class, methods and attributes. A
method is looked up by the class of the object that is there, through its bases, never by what the peer says
that it is.

Another package adds a list by an entry point of the group `duetlink.operations`: its name is that of the
library, which is a root module, and `LIBRARY.toml` lies in the package that the entry names. Such a list can
name the library's own functions and classes alone, and says nothing that changes what our lists say.

On the wire an operation is `numpy.linalg.norm`, `.mean` (a method), `@T` (an attribute) or `@=grad` (an
attribute that is set).

A list tells what an operation does with arrays, tensors and frames whose items are plain values. Arguments
that would make it do something else are refused by `guards.py`, and so is an array that came to hold objects.

What may be called at all, and which operations keep rows apart or average them, is a promise. What is said of
writes and of random numbers is a matter of right values: a program runs alone with the objects that it names,
and where a step is missing from it, its result is wrong.
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

# What an operation does. The first two make something new, that shares no memory with what it was made from.
ELEMENTWISE = "elementwise"  # item by item: a row of the result depends on that row of the arguments only
AGGREGATE = "aggregate"  # an item of the result is made from many
OTHER = "other"  # anything else; its result may be a view of its arguments
IN_PLACE = "in_place"  # changes its first argument
BACKWARD = "backward"  # changes what its first argument was made from: the gradients of its parameters
METADATA = "metadata"  # tells of shape and type: a mock has the answer, and nobody asks the owner
LOCAL = "local"  # done with the mock only, such as a plot
EFFECTS = (ELEMENTWISE, AGGREGATE, OTHER, IN_PLACE, BACKWARD)

# those whose lists are here
LIBRARIES = ("python", "numpy", "scipy", "torch", "pandas", "polars", "sklearn", "statsmodels", "duetlink")


@functools.cache
def libraries() -> tuple[str, ...]:
    """All that have a list, also those for which another package has one. Raises ExtensionFailed."""
    return (*LIBRARIES, *registered())


def registered() -> Mapping[str, Extension]:
    """The libraries for which another package has a list. Raises ExtensionFailed."""
    return extensions(OPERATIONS, frozenset(LIBRARIES) | sys.stdlib_module_names)


@dataclass(frozen=True, slots=True)
class Members:
    """What may be used of the objects of one class."""

    methods: Mapping[str, str]  # name -> effect, METADATA or LOCAL
    attributes: Mapping[str, str]  # name -> OTHER (a part of the object, fetched by a step) or METADATA
    settable: frozenset[str]
    random: frozenset[str] = frozenset()  # methods that may draw from a generator that all share


@dataclass(frozen=True, slots=True)
class Function:
    """One function or class that may be called."""

    name: str
    call: Callable[..., Any]
    effect: str
    changes: tuple[int, ...] = ()  # which arguments, by position; (0,) for nearly all that are IN_PLACE


class Allowed:
    """The lists of some libraries, resolved against what is installed. Loading one imports that library."""

    def __init__(self, libraries: Iterable[str] = ()) -> None:
        self._functions: dict[str, Function] = {}
        self._names: dict[Any, str] = {}  # of functions, by themselves
        self._constants: dict[str, Any] = {}
        self._constant_names: dict[int, str] = {}  # by identity: not all can be hashed
        self._members: dict[type, Members] = {}
        self._merged: dict[type, Members] = {}  # of a class and its bases
        self._loaded: set[str] = set()
        for library in libraries:
            self.load(library)

    @classmethod
    def installed(cls) -> Allowed:
        """The lists of all libraries that are installed."""
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
        """Those that the lists name."""
        return list(self._members)

    def load(self, library: str) -> None:
        """Add the list of one of `libraries`. Names that the installed version lacks are left out.

        Raises:
            LookupError: there is no such list.
            ImportError: the library is not installed.
            ExtensionFailed: a list of another package names what is not its library's own.
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
        """Raises OperationRefused."""
        try:
            return self._functions[name]
        except (KeyError, TypeError):
            raise OperationRefused(f"{name} is in no list of what may be called on private data") from None

    def has_members(self, name: str) -> bool:
        """Whether functions of something by this name may be called, as of `scipy.stats.norm`."""
        return any(full.startswith(f"{name}.") for full in self._functions)

    def functions(self) -> Iterable[Function]:
        """All that may be called."""
        return self._functions.values()

    def name_of(self, function: Any) -> str | None:
        """What a function or class is called on the wire; None: it may not be called."""
        try:
            return self._names.get(function)
        except TypeError:  # cannot be hashed, so it is none
            return None

    def constant(self, name: str) -> Any:
        """Raises OperationRefused."""
        try:
            return self._constants[name]
        except (KeyError, TypeError):
            raise OperationRefused(f"{name} is in no list of what may be given as an argument") from None

    def constant_name(self, constant: Any) -> str | None:
        """What a constant, such as `numpy.float32`, is called on the wire; None: it is in no list.

        `array.dtype` is called as its item type is, where that says it all.
        """
        name = self._constant_names.get(id(constant))
        if name is None and type(constant).__module__ == "numpy.dtypes" and constant.isbuiltin == 1:
            name = self._constant_names.get(id(constant.type))
        return name

    # -- methods and attributes ------------------------------------------------------------------------------

    def method(self, class_: type, name: str) -> str | None:
        """The effect of a method of objects of this class, METADATA or LOCAL; None: it may not be called."""
        return self._of(class_).methods.get(name)

    def attribute(self, class_: type, name: str) -> str | None:
        """OTHER or METADATA; None: it may not be read."""
        return self._of(class_).attributes.get(name)

    def settable(self, class_: type, name: str) -> bool:
        """Whether an attribute may be set."""
        return name in self._of(class_).settable

    def draws(self, class_: type, name: str) -> bool:
        """Whether a method may draw from a generator of random numbers that the whole process shares."""
        return name in self._of(class_).random

    def names(self, class_: type) -> list[str]:
        """The methods and attributes that objects of this class have here, for completion."""
        members = self._of(class_)
        found = {*members.attributes, *(name for name in members.methods if hasattr(class_, name))}
        return sorted(name for name in found if not name.startswith("__"))

    def _of(self, class_: type) -> Members:
        """What the lists say of a class and its bases; the first that names something decides."""
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
    """What a list calls `full` is called `known` by the list that was loaded first."""
    for name, other in ((full, known), (known, full)):
        extension = registered().get(name.partition(".")[0])
        if extension is not None and other.partition(".")[0] != extension.name:
            raise extension.failed(f"its list has as {name} what another list has as {other}")


def _check_class(library: str, class_: type) -> None:
    extension = registered().get(library)
    if extension is not None and class_.__module__.partition(".")[0] != library:
        raise extension.failed(f"its list has {class_.__module__}.{class_.__name__}, which is not its own")


@functools.cache
def read_list(library: str) -> dict[str, Any]:
    """The list of one of `libraries`, as its file has it; read once, and not to be changed. Raises
    ExtensionFailed.
    """
    if (extension := registered().get(library)) is not None:
        return _read_other(extension)
    text = importlib.resources.files("duetlink.compute.operations") / "lists" / f"{library}.toml"
    return tomllib.loads(text.read_text("utf-8"))


def _read_other(extension: Extension) -> dict[str, Any]:
    try:
        file = importlib.resources.files(extension.entry.module) / f"{extension.name}.toml"
        listed = tomllib.loads(file.read_text("utf-8"))
    except Exception as error:  # whatever the package raises when it is imported
        raise extension.failed(f"its list cannot be read: {type(error).__name__}: {error}") from error
    module = str(listed.get("module"))
    if module.partition(".")[0] != extension.name:
        raise extension.failed(f"its list is of {module!r}, and not of {extension.name!r} or a module in it")
    return listed


def _resolve(path: str) -> Any:
    """What a dotted path of a list leads to; None where this version has no such thing."""
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
