"""Mendings that are taken out, one at a time: each is to be found again by programs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
import torch

from duetlink import errors
from duetlink.compute.operations.sizes import arrays, keys, lookup
from duetlink.compute.operations.sizes.mask import PUBLIC
from duetlink.compute.operations.steps import program as words
from duetlink.duet.asking.mocks.echoes import Echoes
from duetlink.duet.asking.pointers import remote, tensor
from duetlink.duet.asking.pointers.pointer import Described, Pointer
from duetlink.duet.asking.pointers.remote_session import RemoteSession
from duetlink.duet.asking.recording import mock_used, program, recipe
from duetlink.duet.asking.recording.targets import SharedMemory
from duetlink.duet.asking.requests.pending_request import PendingRequest
from duetlink.testing.faults import replace_function, set_constants

Patch = pytest.MonkeyPatch
_OPERATORS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift"


class Plant(NamedTuple):
    """What takes a mending out, and the library whose programs are to find it."""

    take_out: Callable[[Patch], None]
    library: str


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _none(patch: Patch) -> None:
    replace_function(patch, program.Program, "returns_nothing", lambda *_: True)


def _targets(patch: Patch) -> None:
    patch.setattr(program, "check_targets", _nothing)


def _operators_in_place(patch: Patch) -> None:
    for name in _OPERATORS.split():
        patch.delattr(remote.Remote, f"__i{name}__")


def _when_it_is_asked(patch: Patch) -> None:
    class Late(PendingRequest):
        def __init__(self, *asked: Any) -> None:
            self._asked = asked

        def result(self, timeout_s: float | None = None) -> Any:
            return ask(*self._asked).result(timeout_s)

        result_or_withdraw = result

    ask = replace_function(patch, RemoteSession, "ask", lambda *asked: Late(*asked))


def _moved_parameters(patch: Patch) -> None:
    patch.setattr(tensor.MovedParameter, "__torch_function__", torch.nn.Parameter.__torch_function__)


def _layers_in_place(patch: Patch) -> None:
    relu, silu, leaky = (torch.nn.functional.relu, torch.nn.functional.silu, torch.nn.functional.leaky_relu)
    found = tensor.torch_function

    def without(function: Any, arguments: Any, keywords: Any) -> Any:
        if function in (relu, silu, leaky):
            keywords = {key: item for key, item in keywords.items() if key != "inplace"}
        return found(function, arguments, keywords)

    patch.setattr(tensor, "torch_function", without)


def _recipes(patch: Patch) -> None:
    read: Any = replace_function(patch, recipe, "reader_of", lambda kind: read.__wrapped__(kind))
    anew = recipe.Recipe
    replace_function(patch, recipe, "estimator", lambda obj: anew(type(obj), (), obj.get_params(deep=False)))


def _lists_within(patch: Patch) -> None:
    found = lookup.hidden_after

    def told(operation: str, arguments: Any, keywords: Any, mocks: Any, made: Any, allowed: Any) -> int:
        hidden = found(operation, arguments, keywords, mocks, made, allowed)
        return PUBLIC if isinstance(made, list | dict) else hidden

    for module in (program, remote):
        patch.setattr(module, "hidden_after", told)


def _labels(patch: Patch) -> None:
    for name in ("_of_series", "_by_label"):
        found = getattr(keys, name)

        def rule(call: Any, *rest: Any, found: Any = found) -> int:
            return PUBLIC if getattr(call.made, "ndim", 0) < 2 else found(call, *rest)

        patch.setattr(keys, name, rule)


def _decisions(patch: Patch) -> None:
    class Forgetful(dict[Any, Any]):
        def __setitem__(self, key: Any, rule: Any) -> None:
            pass

    def rule_of(*asked: Any) -> Any:
        rule = found(*asked)
        return (lambda call: PUBLIC) if rule is arrays.uncounted else rule

    found = replace_function(patch, lookup, "rule_of", rule_of)
    set_constants(patch, lookup, rules=Forgetful())  # those that were looked up before


def _kind_of_error(patch: Patch) -> None:
    class Wrong(errors.PrivateValue, TypeError):
        pass

    patch.setattr(remote, "PrivateValue", Wrong)


def _modes_of_threads(patch: Patch) -> None:
    """Of some products alone: a sum of none that counts makes `backward` fail, which is no silence."""
    record, pause, counted = program.Program.record, threading.Event(), itertools.count(1)

    def recording(self: Any, id_: int, operation: str, arguments: Any, *more: Any, **named: Any) -> None:
        if not operation.endswith("mul") or next(counted) % 29:
            record(self, id_, operation, arguments, *more, **named)
            return
        with self._recording:
            mode = self._gradients = torch.is_grad_enabled()
            self.append(f'[0,"{words.GRAD}",[{program.write_plain(mode)}]]')
        pause.wait(0.0002)  # which other threads may use
        with torch.set_grad_enabled(self._gradients):
            record(self, id_, operation, arguments, *more, **named)

    patch.setattr(program.Program, "record", recording)


def _copies(patch: Patch) -> None:
    patch.setattr(remote.Remote, "__copy__", lambda self: self)


def _shuffled_rows(patch: Patch) -> None:
    patch.setattr(mock_used, "check_row_set", _nothing)


def _views_of_assets(patch: Patch) -> None:
    patch.setattr(SharedMemory, "has", lambda *_: False)


def _names_of_labels(patch: Patch) -> None:
    patch.setattr(Echoes, "check_lent", _nothing)


def _settings(patch: Patch) -> None:
    patch.setattr(program, "settings_here", lambda *_: ())


def _names_of_pointers(patch: Patch) -> None:
    patch.setattr(Pointer, "name", vars(Described)["name"])


def _equals(patch: Patch) -> None:
    patch.setattr(mock_used, "is_told_apart", lambda: False)


def _seeds(patch: Patch) -> None:
    replace_function(patch, program, "seed_of", lambda operation, mocks: _nothing)


PLANTS: Mapping[str, Plant] = {
    "S1 None of a mock": Plant(_none, "polars"),
    "S2 writes into a tensor of this side": Plant(_targets, "torch"),
    "S3 writes into an array of this side": Plant(_targets, "numpy"),
    "S4 operators in place": Plant(_operators_in_place, "numpy"),
    "S5 requests of later": Plant(_when_it_is_asked, "numpy"),
    "S6 an optimiser that was made before": Plant(_moved_parameters, "torch"),
    "S7 layers in place": Plant(_layers_in_place, "torch"),
    "S8 an estimator that has learnt": Plant(_recipes, "sklearn"),
    "S9 lists within lists": Plant(_lists_within, "pandas"),
    "S10 labels that repeat": Plant(_labels, "pandas"),
    "S11 a column for each class": Plant(_decisions, "sklearn"),
    "S12 a private value as a wrong type": Plant(_kind_of_error, "numpy"),
    "S13 threads and their modes": Plant(_modes_of_threads, "torch"),
    "S14 copies": Plant(_copies, "numpy"),
    "S15 shuffled rows": Plant(_shuffled_rows, "numpy"),
    "S16 views of assets": Plant(_views_of_assets, "numpy"),
    "S17 names of labels": Plant(_names_of_labels, "pandas"),
    "S18 settings of the process": Plant(_settings, "torch"),
    "S19 columns that a pointer hides": Plant(_names_of_pointers, "pandas"),
    "S20 equals of pandas": Plant(_equals, "pandas"),
    "S21 seeds": Plant(_seeds, "pandas"),
}
