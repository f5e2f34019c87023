"""The effects of operations from the lists alone, for a process without the program's objects and
libraries.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from duetlink.compute.operations.allow_lists.allowed import (
    AGGREGATE,
    BACKWARD,
    EFFECTS,
    ELEMENTWISE,
    IN_PLACE,
    LIBRARIES,
    OTHER,
    libraries,
    listed_functions,
    read_list,
    registered,
)

# The first characters of a member's wire name, by the list that names it
_SIGNS = dict.fromkeys((*EFFECTS, "metadata_methods"), ".")
_SIGNS |= {"attributes": "@", "metadata": "@", "settable": "@="}
_WORST = (ELEMENTWISE, AGGREGATE, OTHER, BACKWARD, IN_PLACE)


def worst_effect(operation: str) -> str:
    """Return the effect of a function; for a method, the worst effect that any class gives it.

    An operation in no list, which the room refuses, counts as IN_PLACE.
    """
    if operation.startswith("@="):
        return IN_PLACE
    if operation.startswith("@"):
        return OTHER
    return _effects(libraries()).get(operation, IN_PLACE)


def is_listed(operation: str) -> bool:
    """Return True if a list has an operation, by its wire name: a function, or a member of any class.

    The room may still refuse it for the actual object; then the step fails.
    """
    return operation in _listed()


@functools.cache
def may_draw(operation: str) -> bool:
    """Return True if an operation may draw random numbers from a generator that is no argument, for some
    class of objects.
    """
    return operation in _drawing(libraries()) or (
        operation.startswith("torch.nn.") and operation.removeprefix("torch.nn.")[:1].isupper()
    )


@functools.cache
def _drawing(of: tuple[str, ...]) -> frozenset[str]:
    found = {"numpy.random.default_rng"}  # draws from the system's entropy if it gets no seed
    for library in of:
        listed = read_list(library)
        module = listed["module"]
        found.update(f"{module}.{name}" if module else name for name in listed.get("random", ()))
        for members in listed.get("classes", {}).values():
            found.update(f".{name}" for name in members.get("random", ()))
    return frozenset(found)


def check_lists() -> None:
    """Raise ExtensionFailed if another package's list gives a method of ours a worse effect, or calls it
    random.

    A program is read by the names of its methods, before the classes of its objects are known.
    """
    if not registered():
        return
    ours = _effects(LIBRARIES)
    for library, extension in registered().items():
        for members in read_list(library).get("classes", {}).values():
            said = {name: effect for effect in EFFECTS for name in members.get(effect, ())}
            for name, effect in said.items():
                known = ours.get(f".{name}", effect)
                if _WORST.index(effect) > _WORST.index(known):
                    raise extension.failed(
                        f"its list says that .{name} is {effect}, and duetlink's own says {known}"
                    )
            for name in members.get("random", ()):
                if f".{name}" in ours and f".{name}" not in _drawing(LIBRARIES):
                    raise extension.failed(
                        f"its list says that .{name} is random, and duetlink's own does not"
                    )


@functools.cache
def _listed() -> frozenset[str]:
    found = set(listed_functions())
    for library in libraries():
        for members in read_list(library).get("classes", {}).values():
            for key, sign in _SIGNS.items():
                found.update(f"{sign}{name}" for name in members.get(key, ()))
    return frozenset(found)


@functools.cache
def _effects(of: tuple[str, ...]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for library in of:
        listed = read_list(library)
        module = listed["module"]
        for effect, names in listed.get("functions", {}).items():
            for name in names:
                found[f"{module}.{name}" if module else name] = effect
        for members in listed.get("classes", {}).values():
            for effect in EFFECTS:
                for name in members.get(effect, ()):
                    known = found.get(f".{name}", effect)
                    found[f".{name}"] = max(known, effect, key=_WORST.index)
    return found
