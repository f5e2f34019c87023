"""What torch's own modules, losses, optimisers and schedulers do with a tensor from afar is in the lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from duetlink.compute.operations.allow_lists.guards import check
from duetlink.compute.operations.allow_lists.torch_names import METADATA_NAMES, name_of_torch
from duetlink.errors import OperationRefused

pytest.importorskip("torch")

import torch
from torch import nn, optim
from torch.optim import lr_scheduler

_Module = TypeVar("_Module", bound=nn.Module)

UNKNOWN: set[str] = set()
REFUSED: set[str] = set()


class Far(torch.Tensor):
    """Notes what is done with it, as a pointer to a tensor does."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        keywords = dict(keywords or {})
        out = keywords.pop("out", None)
        if out is not None:  # as some optimisers do it; from afar it is two steps
            return out.copy_(function(*arguments, **keywords))
        name = name_of_torch(function)
        if name is None:
            UNKNOWN.add(getattr(function, "__qualname__", str(function)))
        elif name[0] != "@":
            try:
                check(name, arguments, keywords)
            except OperationRefused as error:
                REFUSED.add(str(error))
        with torch._C.DisableTorchFunctionSubclass():
            return far(function(*arguments, **keywords))


def far(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and not isinstance(value, Far):
        return value.as_subclass(Far)
    if type(value) in (tuple, list):
        return type(value)(map(far, value))
    return tuple(map(far, value)) if isinstance(value, tuple) and not isinstance(value, torch.Size) else value


def placed(module: nn.Module) -> nn.Module:
    for part in module.modules():
        kinds: list[dict[str, Any]] = [part._parameters, part._buffers]
        for tensors in kinds:
            for name, tensor in tensors.items():
                if tensor is not None:
                    with torch._C.DisableTorchFunctionSubclass():
                        made = tensor.detach().clone().as_subclass(Far)
                        made._is_param = isinstance(tensor, nn.Parameter)
                        made.requires_grad_(tensor.requires_grad)
                    tensors[name] = made
    return module


def train(
    module: nn.Module,
    make: Callable[[Any], Any],
    x: torch.Tensor,
    y: torch.Tensor,
    loss: nn.Module | None = None,
    schedule: Callable[[Any], Any] | None = None,
) -> None:
    UNKNOWN.clear()
    REFUSED.clear()
    module, x, y, loss = placed(module), far(x), far(y), loss or nn.CrossEntropyLoss()
    optimizer = make(list(module.parameters()))
    scheduler = schedule(optimizer) if schedule else None
    for _ in range(2):
        optimizer.zero_grad()
        loss(module(x), y).backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        nn.utils.clip_grad_value_(module.parameters(), 1.0)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    module.eval()
    with torch.no_grad():
        module(x).argmax(1)
    module.state_dict()
    assert set() == UNKNOWN
    assert set() == REFUSED


X, Y = torch.randn(8, 4), torch.randint(0, 3, (8,))
IMAGES, SIGNALS = torch.randn(8, 1, 8, 8), torch.randn(8, 1, 14)
IDS, SEQUENCES = torch.randint(0, 9, (8, 6)), torch.randn(8, 5, 4)

OPTIMISERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "Adam": lambda p: optim.Adam(p, lr=0.1),
    "Adam with amsgrad": lambda p: optim.Adam(p, lr=0.1, amsgrad=True, weight_decay=0.1),
    "AdamW": lambda p: optim.AdamW(p, lr=0.1),
    "Adadelta": lambda p: optim.Adadelta(p, lr=0.1, weight_decay=0.1),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.1),
    "RMSprop centered": lambda p: optim.RMSprop(p, lr=0.1, centered=True, momentum=0.9),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.1),
    "NAdam": lambda p: optim.NAdam(p, lr=0.1, weight_decay=0.1),
    "RAdam": lambda p: optim.RAdam(p, lr=0.1, weight_decay=0.1),
    "Adamax": lambda p: optim.Adamax(p, lr=0.1),
    "ASGD": lambda p: optim.ASGD(p, lr=0.1),
    "Rprop": lambda p: optim.Rprop(p, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers(name: str) -> None:
    train(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), OPTIMISERS[name], X, Y)


SCHEDULERS = {
    "StepLR": lambda o: lr_scheduler.StepLR(o, 1),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [1]),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 3),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=9),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers(name: str) -> None:
    train(nn.Linear(4, 3), OPTIMISERS["SGD"], X, Y, schedule=SCHEDULERS[name])


class Recurrent(nn.Module):
    def __init__(self, kind: Any, batch_first: bool = True) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 4)
        self.layer = kind(4, 5, num_layers=2, batch_first=True, dropout=0.1, bidirectional=True)
        self.head = nn.Linear(10, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.head(self.layer(self.embedding(x))[0][:, -1]))


class Attention(nn.Module):
    def __init__(self, body: nn.Module, call: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.body, self.call, self.head = body, call, nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.head(self.call(self.body, x).mean(1)))


def mask() -> torch.Tensor:
    return nn.Transformer.generate_square_subsequent_mask(5)


def layer(kind: Callable[..., _Module]) -> _Module:
    return kind(4, 2, 8, batch_first=True)


# fmt: off
ACTIVATIONS = (
    nn.Tanh, nn.Sigmoid, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.SiLU, nn.Mish, nn.Softplus, nn.Softsign,
    nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.ReLU6, nn.PReLU, nn.GLU, nn.AlphaDropout, nn.LogSigmoid,
    nn.Tanhshrink,
)
MODULES: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
    "perceptron": (lambda: nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3),
        nn.LogSoftmax(1),
    ), X),
    "activations": (lambda: nn.Sequential(
        nn.Linear(4, 8), *(kind() for kind in ACTIVATIONS), nn.Softmax(1), nn.Softmin(1), nn.Linear(4, 3)
    ), X),
    "convolutions": (lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(2, 4),
        nn.Dropout2d(), nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        nn.Upsample(scale_factor=2), nn.ConvTranspose2d(4, 4, 2), nn.AvgPool2d(2), nn.AdaptiveMaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
    ), IMAGES),
    "LeNet": (lambda: nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 2), nn.ReLU(), nn.Flatten(1),
        nn.Linear(64, 3),
    ), IMAGES),
    "signals": (lambda: nn.Sequential(
        nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4), nn.AvgPool1d(2), nn.MaxPool1d(2), nn.AdaptiveAvgPool1d(2),
        nn.Flatten(), nn.Linear(8, 3),
    ), SIGNALS),
    "LSTM": (lambda: Recurrent(nn.LSTM), IDS),
    "GRU": (lambda: Recurrent(nn.GRU), IDS),
    "RNN": (lambda: Recurrent(nn.RNN), IDS),
    "attention": (lambda: Attention(
        nn.MultiheadAttention(4, 2, batch_first=True), lambda m, x: m(x, x, x)[0]
    ), SEQUENCES),
    "encoder": (lambda: Attention(
        nn.TransformerEncoder(layer(nn.TransformerEncoderLayer), 2), lambda m, x: m(x)
    ), SEQUENCES),
    "decoder": (lambda: Attention(
        nn.TransformerDecoder(layer(nn.TransformerDecoderLayer), 1), lambda m, x: m(x, x)
    ), SEQUENCES),
    "transformer": (lambda: Attention(
        nn.Transformer(4, 2, 1, 1, 8, batch_first=True), lambda m, x: m(x, x, tgt_mask=mask())
    ), SEQUENCES),
}
# fmt: on


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore")
def test_modules(name: str) -> None:
    make, x = MODULES[name]
    train(make(), OPTIMISERS["Adam"], x, Y)


LOSSES: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
    "CrossEntropyLoss": (lambda: nn.CrossEntropyLoss(label_smoothing=0.1), Y),
    "NLLLoss": (nn.NLLLoss, Y),
    "MSELoss": (nn.MSELoss, torch.rand(8, 3)),
    "L1Loss": (nn.L1Loss, torch.rand(8, 3)),
    "SmoothL1Loss": (nn.SmoothL1Loss, torch.rand(8, 3)),
    "HuberLoss": (nn.HuberLoss, torch.rand(8, 3)),
    "BCEWithLogitsLoss": (nn.BCEWithLogitsLoss, torch.rand(8, 3)),
    "KLDivLoss": (lambda: nn.KLDivLoss(reduction="batchmean"), torch.rand(8, 3)),
    "PoissonNLLLoss": (nn.PoissonNLLLoss, torch.rand(8, 3)),
    "MultiMarginLoss": (nn.MultiMarginLoss, Y),
    "SoftMarginLoss": (nn.SoftMarginLoss, torch.rand(8, 3).sign()),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    make, y = LOSSES[name]
    train(nn.Linear(4, 3), OPTIMISERS["SGD"], X, y, make())


# -- names ------------------------------------------------------------------------------------------------

T: Any = torch.Tensor


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (torch.add, "torch.add"),
        (torch.nn.functional.linear, "torch.nn.functional.linear"),
        (torch._C._nn.gelu, "torch.nn.functional.gelu"),
        (torch._VF.lstm, "torch.lstm"),
        (T.add_, ".add_"),
        (T.backward, ".backward"),
        (T.__rsub__, ".__rsub__"),
        (T.__getitem__, "operator.getitem"),
        (T.__setitem__, "operator.setitem"),
        (T.__eq__, "operator.eq"),
        (T.__and__, "operator.and_"),
        (T.grad.__get__, "@grad"),
        (T.grad.__set__, "@=grad"),
        (T.T.__get__, "@T"),
        (T.size, ".size"),
        (T.shape.__get__, "@shape"),
        (torch.is_complex, "torch.is_complex"),
    ],
)
def test_functions_have_the_names_of_the_lists(function: Any, name: str) -> None:
    assert name_of_torch(function) == name
    metadata = (".size", "@shape", "torch.is_complex")
    assert (name in METADATA_NAMES) == (name in metadata)


# fmt: off
NAMELESS = [
    T.item, T.tolist, T.numpy, T.__bool__, T.__float__, T.__int__, T.__index__, T.__contains__, T.__array__,
    T.data_ptr, T.storage, T.untyped_storage, T.register_hook, T.apply_, T.set_, T.resize_, T.__deepcopy__,
    T.__reduce_ex__, T.__repr__, T.__format__, T._base.__get__, T.grad.__delete__, torch.empty_like,
    torch.save, print,
]
# fmt: on


# by number: as texts they have addresses, which differ between processes
@pytest.mark.parametrize("function", NAMELESS, ids=map(str, range(len(NAMELESS))))
def test_what_would_tell_a_value_or_do_harm_has_no_name(function: Any) -> None:
    assert name_of_torch(function) is None


def test_what_metadata_is_is_in_the_list() -> None:
    assert {
        "@shape",
        "@dtype",
        "@device",
        "@requires_grad",
        "@is_leaf",
        "@ndim",
        ".dim",
        ".numel",
    } <= METADATA_NAMES
    assert not {"@grad", "@T", "@data", ".item", ".sum"} & METADATA_NAMES
