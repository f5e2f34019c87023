"""A private training as the source text of a function, for the data's owner to read and to run.

Torch's layers, losses and optimizers are written as constructor calls: `nn.Linear(in_features=3, ...)`. A
part whose text would not build an equal object is refused.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from duetlink.errors import SettingError

_ELSE = "write the training as a function of your own, for duet.remote"
_CLASSES = (nn.CrossEntropyLoss, nn.NLLLoss)  # whose targets are numbers of classes

_TEXT = """\
import numpy
import torch
from torch import nn

from duetlink.learning import DpSgd


def train(x, y, weights):
    model = {model}
    nn.utils.vector_to_parameters(weights, model.parameters())
    training = DpSgd(
        model,
        {optimizer},
        {loss},
        {numbers},
    )
    training.fit(
        torch.tensor(numpy.asarray(x), dtype={inputs}),
        torch.tensor(numpy.asarray(y), dtype={targets}),
        epochs={epochs},
    )
    return {{name: weight.clone() for name, weight in model.state_dict().items()}}
"""


def as_text(
    model: nn.Module, optimizer: torch.optim.Optimizer, loss: Any, numbers: Mapping[str, Any], epochs: int
) -> tuple[str, Tensor]:
    """Return the text of a function `train(x, y, weights)`, and the initial weights, float32 of shape (n,).

    Raises:
        SettingError: the model is not a sequence of torch's own layers with all parameters float32 and
            trained; or the optimizer has made steps, or has several parameter groups; or the loss is not one
            of torch's.
    """
    if type(epochs) is not int or epochs < 1:
        raise SettingError(f"epochs is {epochs!r}: it is a whole number from 1 on")
    parameters = list(model.parameters())
    if any(one.dtype != torch.float32 or not one.requires_grad for one in parameters):
        raise SettingError(f"all parameters of a training that is sent are float32 and trained; else {_ELSE}")
    if any(True for _ in model.buffers()):
        raise SettingError(f"a layer has buffers in addition to its parameters; {_ELSE}")
    if not isinstance(loss, nn.Module):
        raise SettingError(f"the loss {loss!r} is no module of torch.nn, such as nn.MSELoss; {_ELSE}")
    if not all(map(_is_plain, numbers.values())):
        raise SettingError(f"clip is {numbers['clip']!r}: a training that is sent has a finite one")
    first = next(part for part in model.modules() if not isinstance(part, nn.Sequential))
    text = _TEXT.format(
        model=_model(model, "    "),
        optimizer=_optimizer(optimizer, len(parameters)),
        loss=_module(loss),
        numbers=", ".join(f"{name}={value!r}" for name, value in numbers.items()),
        inputs="torch.int64" if isinstance(first, nn.Embedding) else "torch.float32",
        targets="torch.int64" if isinstance(loss, _CLASSES) else "torch.float32",
        epochs=epochs,
    )
    return text, nn.utils.parameters_to_vector(parameters).detach().clone()


def _model(model: nn.Module, margin: str) -> str:
    if type(model) is not nn.Sequential:
        return _module(model)
    if [name for name, _ in model.named_children()] != [str(place) for place in range(len(model))]:
        raise SettingError(f"the layers of nn.Sequential have names; {_ELSE}")
    within = margin + "    "
    layers = "".join(f"{within}{_model(layer, within)},\n" for layer in model)
    return f"nn.Sequential(\n{layers}{margin})"


def _module(module: nn.Module) -> str:
    kind = type(module)
    if getattr(nn, kind.__name__, None) is not kind or next(module.children(), None) is not None:
        raise SettingError(f"{kind.__name__} is no layer or loss of torch.nn by itself; {_ELSE}")
    if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):
        raise SettingError(f"{kind.__name__} was changed after it was made; {_ELSE}")
    given = dict(_arguments(module))
    if _settings(kind(**given)) != _settings(module):
        raise SettingError(f"{module!r} cannot be written as it is made; {_ELSE}")
    return f"nn.{kind.__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"


def _arguments(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the constructor arguments that differ from their defaults, read from the module's attributes."""
    for name, parameter in inspect.signature(type(module)).parameters.items():
        value = getattr(module, name, parameter.default)
        if isinstance(value, nn.Parameter) or (name == "bias" and value is None):
            value = value is not None
        if value is parameter.default and value is not inspect.Parameter.empty:
            continue
        if not _is_plain(value):
            raise SettingError(f"{name} of {module!r} is no plain number, text or tuple; {_ELSE}")
        yield name, value


def _settings(module: nn.Module) -> dict[str, Any]:
    """Return everything that defines a module, except its parameters' values."""
    shapes = {
        name: None if value is None else tuple(value.shape) for name, value in module._parameters.items()
    }
    own = {name: value for name, value in vars(module).items() if name[0] != "_" and name != "training"}
    return {**own, "": shapes}


def _optimizer(optimizer: torch.optim.Optimizer, count: int) -> str:
    kind = type(optimizer)
    if getattr(torch.optim, kind.__name__, None) is not kind:
        raise SettingError(f"{kind.__name__} is no optimizer of torch.optim; {_ELSE}")
    if optimizer.state or len(optimizer.param_groups) != 1:
        raise SettingError(f"the optimizer has made steps, or has groups of parameters; {_ELSE}")
    (group,) = optimizer.param_groups
    if len(group["params"]) != count:
        raise SettingError(f"the optimizer holds other parameters than the model; {_ELSE}")
    given = {
        name: group[name]
        for name, parameter in inspect.signature(kind).parameters.items()
        if name in group and name != "params" and group[name] != parameter.default
    }
    for name, value in given.items():
        if not _is_plain(value):
            raise SettingError(f"{name} of {kind.__name__} is no plain number; {_ELSE}")
    settings = "".join(f", {name}={value!r}" for name, value in given.items())
    return f"torch.optim.{kind.__name__}(model.parameters(){settings})"


def _is_plain(value: Any) -> bool:
    """Return True if `repr` gives text that evaluates to an equal value."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False
