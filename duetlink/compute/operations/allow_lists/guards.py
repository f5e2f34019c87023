"""Guards: checks of arguments, for functions that would do harm with some of them.

Both sides check before they call: the scientist's side so that a refusal is immediate, the room so that it is
binding. Most rules are in a table made to be read, `lists/guards.toml`. This file applies them and adds
checks that a table cannot express. `callbacks.py` checks functions passed as arguments.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, MutableSequence, MutableSet, Sequence
from typing import Any

from duetlink.compute.operations.allow_lists.allowed import IN_PLACE, read_list
from duetlink.compute.operations.allow_lists.callbacks import check_functions, is_function
from duetlink.compute.operations.allow_lists.rules import ITEM_TYPES, ArgumentRules, plan_of
from duetlink.errors import OperationRefused

_PLAIN = frozenset({int, float, bool, complex, str, bytes, type(None), slice, type(...)})
_CONTAINERS = (MutableSequence, MutableSet, Mapping, tuple)
_JOINING = frozenset(f"operator.{name}" for name in ("add", "sub", "mul", "and_", "or_", "xor", "concat"))
# arrays with such items hold addresses, or structured items
_NO_ITEM_TYPE = re.compile(r"object|void|rec|[OV,(]")
_ZONE_FILE = re.compile(r"dateutil[/:]")  # pandas would open the file of a zone named `dateutil//etc/passwd`
_SHARING = frozenset({"torch.as_tensor", "torch.asarray", "torch.from_numpy"})
_LARGER = frozenset({"torch.max", "torch.min", ".max", ".min"})


# The lists are read when they are first needed: a kernel that only connects needs none.
@functools.cache
def _special() -> frozenset[str]:
    named = read_list("guards")["functions"]
    listed = {name for key in ("bare", "by_name", "hand_on") for name in named[key]}
    return _SHARING | _LARGER | _writing() | listed


@functools.cache
def _changing() -> frozenset[str]:
    return frozenset(read_list("python")["functions"][IN_PLACE])


@functools.cache
def _writing() -> frozenset[str]:
    return frozenset(f"numpy.{name}" for name in read_list("numpy")["functions"][IN_PLACE])


def check(operation: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Refuse an operation of the lists for its arguments. The first argument of a method is its object.

    Raises:
        OperationRefused: the message says why, and what to do instead.
    """
    kind: type = type(arguments[0]) if arguments else type(None)
    checks = plan_of(operation, kind)
    for position in checks.watched:
        if position < len(arguments):
            _check_value(operation, checks, checks.names[position], arguments[position])
    for name, value in keywords.items():
        if not checks.free or name in checks.named:
            _check_keyword(operation, checks, name, value)
    if checks.needed is None and operation not in _special():
        everything = (*arguments, *keywords.values()) if keywords else arguments
        for argument in everything:
            kind = type(argument)
            inspected = _inspected_types.get(kind)
            if inspected is None:
                inspected = _inspected_types[kind] = _needs_inspection(kind, argument)
            if inspected:
                break
        else:
            return
    _check_all(operation, checks, arguments, keywords)


_inspected_types: dict[type, bool] = {}


def _needs_inspection(kind: type, example: Any) -> bool:
    """Return True if more than the class of such an argument matters; for numbers, arrays, frames and models
    it does not.
    """
    if issubclass(kind, (str, bytes, type, *_CONTAINERS)) or kind.__name__ == "device":
        return True
    return is_function(example) or _is_bare_column(kind) or _is_module(kind)


def _check_all(
    operation: str, checks: ArgumentRules, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> None:
    if checks.needed is not None and len(arguments) + len(keywords) < checks.needed[0]:
        raise OperationRefused(
            f"{operation} needs at least {checks.needed[0]} arguments here: {checks.needed[1]}"
        )
    check_functions(operation, checks, arguments, keywords)
    everything = (*arguments, *keywords.values())
    if operation.startswith("operator."):
        _check_operands(operation, arguments)
    elif operation in _writing():
        kind = type(arguments[0]) if arguments else type(None)
        if (kind.__module__, kind.__name__) != ("numpy", "ndarray"):
            raise OperationRefused(f"{operation} may only write to an array of NumPy as its first argument")
    elif checks.library == "pandas":
        for text in _texts(everything):
            if _ZONE_FILE.search(text):
                raise OperationRefused(f"{operation}: pandas would open {text!r} as a file")
    elif checks.library == "sklearn":
        for name, value in _named(everything):
            _check_keyword(operation, checks, name, value)
    elif checks.library == "torch":
        _check_tensors(operation, arguments, keywords)


# -- by name -----------------------------------------------------------------------------------------------


def _check_keyword(operation: str, checks: ArgumentRules, name: str, value: Any) -> None:
    if name.startswith("_") and name not in read_list("guards")["private"]:
        raise OperationRefused(f"{operation}: {name}= is a private parameter")
    _check_value(operation, checks, name.rpartition("__")[2] if checks.library == "sklearn" else name, value)


def _check_value(operation: str, checks: ArgumentRules, name: str, value: Any) -> None:
    if name in ITEM_TYPES:
        _check_item_type(operation, value)
    rule = checks.rules.get(name)
    if rule is not None and rule.refuses(value):
        shown = f"{name}={value!r}" if type(value) in _PLAIN else f"{name}="
        raise OperationRefused(f"{operation} is refused with {shown}: {rule.why}")


def _check_item_type(operation: str, value: Any) -> None:
    kind = type(value)
    if isinstance(value, (tuple, list)):
        raise OperationRefused(f"{operation}: structured dtypes are refused for private data")
    if isinstance(value, Mapping):  # one dtype per column
        for part in value.values():
            _check_item_type(operation, part)
        return
    text = str(value) if isinstance(value, str) else value.str if kind.__module__ == "numpy.dtypes" else ""
    if value is object or _NO_ITEM_TYPE.search(text.partition("[")[0]) or _ZONE_FILE.search(text):
        raise OperationRefused(f"{operation}: the dtype {text or 'object'} is refused for private data")


def _named(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values under text keys of dicts, at any depth; of a list of candidates, each one."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(key, str):
                for part in item if isinstance(item, (list, tuple)) else (item,):
                    yield str(key), part
            yield from _named(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _named(item)


# -- by kind -----------------------------------------------------------------------------------------------


def _check_operands(operation: str, arguments: Sequence[Any]) -> None:
    target = arguments[0] if arguments else None
    if operation in _changing():
        if isinstance(target, (bytes, *_CONTAINERS)) or _is_bare_column(type(target)):
            raise OperationRefused(
                f"{operation}: a {type(target).__name__} of results cannot be changed; make a new one"
            )
    elif operation == "operator.mod" and isinstance(target, (str, bytes)):
        raise OperationRefused("a text cannot be formatted with private data; get the values first")
    elif operation in _JOINING and _are_lists(arguments):
        raise OperationRefused(f"{operation}: lists of results cannot be joined; make an array of them")
    elif operation in _JOINING and any(_is_module(type(argument)) for argument in arguments):
        raise OperationRefused(
            f"{operation}: modules cannot be joined, since both would share them; make a new one"
        )


def _check_tensors(operation: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    for argument in (*arguments, *keywords.values()):
        device = argument if operation == ".to" and isinstance(argument, str) else None
        if type(argument).__name__ == "device" and type(argument).__module__ == "torch":
            device = argument.type
        if device is not None and device != "cpu":
            raise OperationRefused(f"{operation}: a room has only a CPU, not {str(argument)!r}")
    other = keywords.get("other", arguments[1] if len(arguments) > 1 else None)
    if operation in _LARGER and hasattr(other, "dim"):
        raise OperationRefused(f"{operation} of two tensors is refused; use torch.maximum or torch.minimum")
    if operation in _SHARING and arguments:
        flags = getattr(arguments[0], "flags", None)
        if getattr(flags, "writeable", True) is False:
            raise OperationRefused(
                f"{operation} would make shared read-only memory writable; use torch.tensor"
            )


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in arguments, whose depth is known to be bounded."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts((key, item))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def _are_lists(operands: Sequence[Any]) -> bool:
    """Return True if all operands are lists or single values. With an array, an operation works on arrays."""
    containers = [operand for operand in operands if isinstance(operand, _CONTAINERS)]
    others = [type(operand) for operand in operands if not isinstance(operand, _CONTAINERS)]
    return bool(containers) and all(
        kind in _PLAIN
        or any(base.__module__ == "numpy" and base.__name__ == "generic" for base in kind.__mro__)
        for kind in others
    )


def _is_module(kind: type) -> bool:
    return any(base.__name__ == "Module" and base.__module__.startswith("torch.nn.") for base in kind.__mro__)


def _is_bare_column(kind: type) -> bool:
    """Return True if the type is a pandas array, whose memory a frame and all its copies may share."""
    return any(base.__name__ == "ExtensionArray" for base in kind.__mro__)
