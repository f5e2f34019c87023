"""Plain PyTorch on tensors that are elsewhere."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from duetlink import Mock, errors
from duetlink.duet.answering.requests import Request
from duetlink.duet.asking.pointers.tensor import TensorPointer
from tests.remote.conftest import Bench

ROWS = 64


@pytest.fixture(scope="module")
def real() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(ROWS, 1, 8, 8, generator=generator)
    return images, (images.mean(dim=(1, 2, 3)) > 0).long()


@pytest.fixture
def pointers(bench: Bench, real: tuple[torch.Tensor, torch.Tensor]) -> tuple[Any, Any]:
    if "images" not in bench.owner.store:
        bench.share(real[0], "images")
        bench.share(real[1], "labels", mock=Mock(bounds=(0, 1)))
    return bench.scientist.wait_object("images", 10), bench.scientist.wait_object("labels", 10)


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: (x * 2 + 1) / (x.abs() + 1) - 3 * x**2,
    "swapped": lambda x: 1 - x + 2 / (x.abs() + 1),
    "comparison": lambda x: (x > 0) & (x <= 1),
    "index": lambda x: x[3:9, 0, ::2, -1],
    "mask": lambda x: x[x > 1],
    "methods": lambda x: x.flatten(1).softmax(dim=1).argmax(dim=1).float().mean(),
    "functions": lambda x: torch.cat([x, torch.zeros(2, 1, 8, 8)]).sum(dim=0),
    "our own tensors": lambda x: torch.nn.functional.conv2d(x, torch.ones(2, 1, 3, 3)),
    "types": lambda x: x.to(torch.float64).round().long(),
    "einsum": lambda x: torch.einsum("bchw,bchw->b", x, x),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_gives_at_the_owner_what_it_gives_here(
    pointers: tuple[Any, Any], real: tuple[torch.Tensor, torch.Tensor], name: str
) -> None:
    result = OPERATIONS[name](pointers[0])
    assert isinstance(result, TensorPointer)
    value, expected = result.get(reason=name), OPERATIONS[name](real[0])
    assert type(value) is torch.Tensor
    assert value.dtype == expected.dtype
    torch.testing.assert_close(value, expected)
    assert torch.equal(result.mock, OPERATIONS[name](pointers[0].mock))


def test_several_results(pointers: tuple[Any, Any], real: tuple[torch.Tensor, torch.Tensor]) -> None:
    values, indices = pointers[0].flatten(1).max(dim=1)
    torch.testing.assert_close(values.get(), real[0].flatten(1).max(dim=1).values)
    assert torch.equal(indices.get(), real[0].flatten(1).max(dim=1).indices)
    named: Any = torch.max(pointers[0].flatten(1), dim=1)
    assert torch.equal(named.indices.get(), indices.get())


def test_what_python_wants_to_know_is_refused(pointers: tuple[Any, Any]) -> None:
    total = pointers[0].sum()
    for ask in (bool, float, int, torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.numpy, np.asarray):
        with pytest.raises(errors.PrivateValue, match=r"\.get\(reason=…\)"):
            ask(total)
    assert isinstance(total.mock.item(), float)
    assert (total.shape, total.dtype, total.ndim) == (torch.Size([]), torch.float32, 0)


@pytest.mark.parametrize("name", ["save", "Tensor.register_hook", "Tensor.apply_"])
def test_what_is_in_no_list_is_refused(pointers: tuple[Any, Any], name: str) -> None:
    tensor = pointers[0] + 1
    if name == "Tensor.register_hook":
        with pytest.raises(errors.OperationRefused, match="register_hook"):
            tensor.requires_grad_().register_hook(print)
    elif name == "Tensor.apply_":
        with pytest.raises(errors.OperationRefused, match="apply_"):
            tensor.apply_(abs)
    else:
        with pytest.raises((errors.OperationRefused, errors.PrivateValue)):
            torch.save(tensor, io.BytesIO())


def make_model(kind: str) -> nn.Module:
    torch.manual_seed(0)
    if kind == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 2))
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2)
    )


def train(model: nn.Module, images: Any, labels: Any, make: Any, steps: int = 6) -> Any:
    """A plain loop."""
    optimiser = make(model.parameters())
    loss = None
    for step in range(steps):
        start = 16 * (step % 4)
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(images[start : start + 16]), labels[start : start + 16])
        loss.backward()
        optimiser.step()
    return loss


OPTIMISERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    "amsgrad": lambda parameters: torch.optim.Adam(parameters, lr=0.01, amsgrad=True),
    "adadelta": lambda parameters: torch.optim.Adadelta(parameters),
}


@pytest.mark.parametrize(
    ("kind", "optimiser"),
    [("mlp", "sgd"), ("mlp", "adam"), ("mlp", "adamw"), ("mlp", "amsgrad"), ("cnn", "adadelta")],
)
def test_a_plain_loop_trains_at_the_owner_as_it_does_here(
    bench: Bench,
    pointers: tuple[Any, Any],
    real: tuple[torch.Tensor, torch.Tensor],
    kind: str,
    optimiser: str,
) -> None:
    here = make_model(kind)
    loss_here = train(here, *real, OPTIMISERS[optimiser])
    there = bench.scientist.remote(make_model(kind))
    loss_there = train(there, *pointers, OPTIMISERS[optimiser])
    torch.testing.assert_close(
        loss_there.get(reason="loss").detach(), loss_here.detach(), rtol=1e-4, atol=1e-5
    )
    fetched = bench.scientist.fetch(there, reason="the model")
    for one, two in zip(here.state_dict().values(), fetched.state_dict().values(), strict=True):
        torch.testing.assert_close(two, one, rtol=1e-3, atol=1e-4)
    assert all(type(parameter) is nn.Parameter for parameter in fetched.parameters())
    here.eval(), fetched.eval()
    torch.testing.assert_close(fetched(real[0]), here(real[0]), rtol=1e-3, atol=1e-3)


def test_a_model_of_a_users_own_class(bench: Bench, pointers: tuple[Any, Any], real: Any) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(64, 8), nn.Linear(8, 2)
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x: Any) -> Any:
            x = torch.relu(self.first(x.flatten(1)))
            return self.second(nn.functional.dropout(x, 0.5, self.training)) * self.scale

    torch.manual_seed(1)
    model = Net().eval()
    expected = model(real[0]).detach()
    placed = bench.scientist.remote(model)
    with torch.no_grad():
        torch.testing.assert_close(placed(pointers[0]).get(), expected)


def test_gradients_are_there_too(bench: Bench) -> None:
    weights = bench.scientist.remote(torch.tensor([1.0, 2.0])).requires_grad_()
    x = bench.share(torch.tensor([3.0, 4.0]), "two", mock=torch.zeros(2))
    (weights * x).sum().backward()
    torch.testing.assert_close(weights.grad.get(), torch.tensor([3.0, 4.0]))
    with torch.no_grad():
        weights -= 0.5 * weights.grad
    weights.grad = None
    torch.testing.assert_close(weights.get().detach(), torch.tensor([-0.5, 0.0]))


def test_a_shared_tensor_that_requires_gradients_is_data_there(bench: Bench) -> None:
    x = bench.share(torch.tensor([3.0, 4.0], requires_grad=True), "learning")
    assert not x.mock.requires_grad
    assert not (x * 2).get().requires_grad


def test_gradients_lead_through_a_tensor_that_was_placed(bench: Bench) -> None:
    x = bench.share(torch.tensor([3.0, 4.0]), "data", mock=torch.zeros(2))
    with torch.no_grad():
        unrecorded = x * torch.tensor([1.0, 2.0], requires_grad=True)
    assert not unrecorded.requires_grad
    assert not unrecorded.get().requires_grad
    made = x * bench.scientist.remote(torch.tensor([1.0, 2.0])).requires_grad_()
    made.retain_grad()
    made.sum().backward()
    torch.testing.assert_close(made.grad.get(), torch.tensor([1.0, 1.0]))
    torch.testing.assert_close(made.get().detach(), torch.tensor([3.0, 8.0]))


def test_two_trainings_on_the_same_data_are_in_two_lineages(bench: Bench, pointers: tuple[Any, Any]) -> None:
    codes: list[str] = []

    def keep(request: Request) -> None:
        codes.append(str(request.code))
        request.approve()

    bench.answer = keep
    for kind in ("mlp", "cnn"):
        model = bench.scientist.remote(make_model(kind))
        train(model, *pointers, OPTIMISERS["sgd"], steps=2).get(reason="loss")
    assert [code.count(".backward()") for code in codes] == [1, 1]  # of the first step
    assert "tanh" in codes[0]
    assert "conv2d" not in codes[0]
    assert "tanh" not in codes[1]


def test_layers_that_write_over_what_they_get_write_over_no_asset(
    bench: Bench, pointers: tuple[Any, Any], real: tuple[torch.Tensor, torch.Tensor]
) -> None:
    model = nn.Sequential(nn.Flatten(), nn.ReLU(inplace=True), nn.Dropout(0.0, inplace=True), nn.ReLU6(True))
    placed = bench.scientist.remote(model)
    torch.testing.assert_close(placed(pointers[0] * 1).get(), real[0].flatten(1).clamp(0, 6))
    with pytest.raises(errors.OperationRefused, match=r"is a view.*\.clone\(\)"):
        placed(pointers[0])


def test_a_device_is_an_argument_and_gradients_are_clipped(bench: Bench) -> None:
    """Both are in nearly every script; `clip_grad_norm_` asks for the device inside."""
    real = torch.arange(6.0).reshape(2, 3)
    x = bench.share(real, "on_a_device")
    device = torch.device("cpu")
    assert torch.equal(x.to(device).get(), real)
    zeros: Any = torch.zeros_like(x, device=device)
    assert torch.equal(zeros.get(), torch.zeros(2, 3))
    torch.manual_seed(0)
    local = torch.nn.Linear(3, 1)
    model = bench.scientist.remote(copy.deepcopy(local))
    for net, data in ((model, x), (local, real)):
        net(data).pow(2).sum().backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    torch.testing.assert_close(model.weight.grad.get(), local.weight.grad)
    with pytest.raises(errors.OperationRefused, match="a room has only a CPU"):
        x.to(torch.device("cuda"))


def test_what_learns_here_does_not_learn_from_a_mock(bench: Bench) -> None:
    """The loop of a tutorial as it is: it ran, its loss went down, and its gradients were of noise."""
    x = bench.share(torch.arange(6.0).reshape(2, 3), "to_learn_from")
    model = torch.nn.Linear(3, 1)
    with pytest.raises(errors.OperationRefused, match=r"Place it first: model = duet\.remote\(model\)"):
        model(x)
    weight = torch.ones(3, requires_grad=True)
    with pytest.raises(errors.OperationRefused, match="its gradients would be those of the mock"):
        x * weight
    assert torch.equal((x * weight.detach()).get(), torch.arange(6.0).reshape(2, 3))


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda x: torch.func.grad(lambda v: (v**2).sum())(x),
    "vmap": lambda x: torch.vmap(torch.sum)(x),
    "jacrev": lambda x: torch.func.jacrev(torch.sin)(x),
    "jacfwd": lambda x: torch.func.jacfwd(torch.sin)(x),
    "hessian": lambda x: torch.func.hessian(lambda v: (v**3).sum())(x),
    "vjp": lambda x: torch.func.vjp(torch.sin, x),
    "jvp": lambda x: torch.func.jvp(torch.sin, (x,), (torch.ones(3, 2),)),
    "linearize": lambda x: torch.func.linearize(torch.sin, x),
    "within a closure": lambda x: torch.vmap(lambda v: (v * x).sum())(torch.ones(4, 3, 2)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_functions_do_not_compute_with_a_mock(bench: Bench, name: str) -> None:
    if "points" not in bench.owner.store:
        bench.share(torch.arange(6.0).reshape(3, 2), "points", mock=torch.ones(3, 2))
    x = bench.scientist.wait_object("points", 10).clone()
    with pytest.raises((errors.OperationRefused, errors.PrivateValue)):
        TRANSFORMS[name](x)
    assert torch.equal(torch.vmap(torch.sum)(torch.ones(2, 3)), torch.tensor([3.0, 3.0]))
