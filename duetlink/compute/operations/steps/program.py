"""Steps as JSON, as they are recorded and sent. See `allowed.py` for the operations.

A recorded step is a list `[id, operation, arguments]` or `[id, operation, arguments, keywords]`. `id` names
the result in later steps, or is 0 if no one needs it. Apart from the operations of the lists there are

    asset   [name, revision]      the object that the owner shares under that name
    value   [index]               one of the values that the scientist sends with the steps, by its index
    drop    [id, …]               these results are not needed any more
    grad    [true or false]       torch records gradients from here on, or does not

Arguments are JSON's own numbers, texts, `true`, `false` and `null`, or lists whose first item is a tag:

    [7]                           the result 7
    ["t", …] ["l", …] ["d", …]    a tuple, a list, a dict as key, value, key, value, …
    ["s", start, stop, step]      a slice
    ["e"]                         an ellipsis
    ["z", real, imaginary]        a complex number
    ["c", name]                   a constant of the lists, such as numpy.float32
    ["f", name]                   a function of the lists

A recorded step may have two more items: 0 if an operation that may draw random numbers draws none here, else
1; and the settings of libraries under which it was done, as in `settings.py`.

The steps of a requested program have no ids, and contain neither drop nor grad nor seeds: see `body.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from duetlink.errors import RemoteProtocolError

if TYPE_CHECKING:
    from duetlink.compute.operations.steps.body import BodyStep

ASSET, VALUE, DROP, GRAD = "asset", "value", "drop", "grad"
SEEDS = frozenset(("torch.manual_seed",))  # operations that set the seed of later draws

MAX_DEPTH = 20  # nesting of an argument

Argument = Any  # JSON as in the module's docstring


class Step(NamedTuple):
    """One recorded step."""

    id: int  # of its result; 0: no step uses it
    operation: str
    arguments: Sequence[Argument]
    keywords: dict[str, Argument]


def references(step: Step | BodyStep) -> list[int]:
    """Return the ids that a step's arguments name, in order. Raise RemoteProtocolError if it is malformed."""
    found: list[int] = []

    def look(argument: Argument, depth: int) -> None:
        if type(argument) is not list:
            return
        if depth > MAX_DEPTH or not argument:
            raise RemoteProtocolError(f"an argument of {step.operation} is empty, or too deep")
        if type(argument[0]) is int and len(argument) == 1:
            found.append(argument[0])
            return
        for part in argument[1:]:
            look(part, depth + 1)

    if step.operation == DROP:
        return []
    for argument in (*step.arguments, *step.keywords.values()):
        look(argument, 0)
    return found


def decode(
    argument: Argument,
    *,
    result: Callable[[int], Any],
    constant: Callable[[str], Any],
    function: Callable[[str], Any],
    depth: int = 0,
) -> Any:
    """Return the object that an argument stands for. The callables look up the names in it, and may raise.

    Raises:
        RemoteProtocolError: the argument is malformed.
    """
    if type(argument) is not list:
        if type(argument) is dict:
            raise RemoteProtocolError("an argument is a JSON object")
        return argument
    if not argument or depth > MAX_DEPTH:
        raise RemoteProtocolError("an argument is empty, or too deep")
    tag, *parts = argument
    if type(tag) is int and not parts:
        return result(tag)
    try:
        if tag in ("c", "f"):
            (name,) = parts
            return (constant if tag == "c" else function)(name)
        if tag == "z":
            real, imaginary = parts
            return complex(float(real), float(imaginary))

        def deeper(part: Argument) -> Any:
            return decode(part, result=result, constant=constant, function=function, depth=depth + 1)

        if tag == "t":
            return tuple(deeper(part) for part in parts)
        if tag == "l":
            return [deeper(part) for part in parts]
        if tag == "d":
            return {deeper(key): deeper(item) for key, item in zip(parts[::2], parts[1::2], strict=True)}
        if tag == "s":
            start, stop, step = parts
            return slice(deeper(start), deeper(stop), deeper(step))
        if tag == "e" and not parts:
            return ...
    except (TypeError, ValueError) as error:
        raise RemoteProtocolError(f"an argument {tag!r} is malformed") from error
    raise RemoteProtocolError("an argument has an unknown tag")
