"""The sum of clipped gradients, one gradient per sample: three ways to the same tensors.

A sample's gradient is taken over all trainable parameters together. If its norm is above `clip`, it is scaled
down to `clip` (Abadi et al. 2016, algorithm 1). A sample whose gradient is not finite counts as zero, so that
it has no more influence than any other.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import functional_call, grad, vmap
from torch.utils._python_dispatch import TorchDispatchMode

from duetlink.errors import DuetError, MissingLibrary, SettingError
from duetlink.learning.dp.apart import check_apart
from duetlink.learning.dp.layers import (
    LayerGradients,
    check_layers,
    gradients_of,
    sample_gradients,
    trainable,
)

Loss = Callable[[Any, Any], Tensor]  # (outputs, targets) to one number for each sample, shape (B,)
# Rounding by float32 is far smaller, and no sum of a batch overflows, which could reveal a single row.
_CLIPS = (1e-10, 1e10)
_LEAST_WEIGHT = 2.0**-100  # below it float32 would round the weighted gradient by much
_LOOKED_AT = 4  # the number of samples of the first batch whose gradients autograd makes one by one
_ROUNDED = 1e-2  # a relative tolerance: an unclipped gradient differs by far more, rounding by far less
_KEPT_BYTES = 2**28  # of samples' gradients, which all convolutions of a model keep together
_DTYPES = (torch.float32, torch.float64)  # others have too few bits for a sum of many samples

Batch = tuple[tuple[Tensor, ...], Tensor]  # the model's inputs, and the targets


@dataclass(frozen=True, slots=True)
class ClippedSum:
    """The sum over one batch."""

    gradients: dict[str, Tensor]  # by parameter name: the sum over samples, each clipped
    norms: Tensor  # float64 of shape (B,), before clipping. They are private


class Clipping(ABC):
    """One way to make the clipped sum, for one model and one loss."""

    way: ClassVar[str]  # its name as a setting

    def __init__(self, model: nn.Module, loss: Loss, clip: float) -> None:
        """Raises SettingError for a model whose samples cannot be separated, or a clip out of range."""
        if not _CLIPS[0] <= clip <= _CLIPS[1]:
            raise SettingError(
                f"clip is {clip!r}: the largest norm of a sample's gradient is above 0, from "
                f"{_CLIPS[0]:g} to {_CLIPS[1]:g}"
            )
        check_layers(model)
        self.model, self.loss, self.clip = model, loss, clip
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if not self.parameters:
            raise SettingError(
                "the model has no parameter that requires a gradient: there is nothing to train"
            )
        for name, p in self.parameters.items():
            if p.device.type != "cpu":
                raise SettingError(f"{name} is on {p.device}: private training is on the CPU; model.cpu()")
            if p.dtype not in _DTYPES:
                raise SettingError(f"{name} is {p.dtype}: what is trained is float32 or float64")
        self._at_first = {
            (layer, own): p
            for layer in _modules(model)
            for own, p in layer._parameters.items()
            if p is not None and p.requires_grad
        }
        self._is_apart = False

    def of(self, batch: Batch) -> dict[str, Tensor]:
        """Return the clipped gradients of a batch of at least one sample, summed, by parameter.

        Raises:
            SettingError: the loss does not give one number for each sample; or the model mixes samples, or
                changes its parameters or buffers; or this way does not support the model. An error that the
                model or the loss raises without clipping, too, is passed on.
        """
        layers = _modules(self.model)
        self._check_parameters(layers)
        held, buffers = _held(layers), [buffer.detach().clone() for buffer in _buffers(layers)]
        samples = len(batch[1])
        if any(x.shape[:1] != (samples,) for x in batch[0]):
            shapes = ", ".join(str(tuple(x.shape)) for x in batch[0])
            raise SettingError(
                f"there are {samples} targets, and inputs of shape {shapes}: each needs one "
                "entry for every row"
            )
        try:
            if not self._is_apart and samples > 1:
                self._is_apart = self.check_apart(batch)
            found = self.sum(batch).gradients
        except Exception as error:
            self._explain(error, batch)
            raise
        layers = _modules(self.model)
        if _held(layers) != held or not _are_held(_buffers(layers), buffers):
            raise SettingError(
                "the model changes its parameters or buffers while it is used: that would tell of rows, and "
                "no noise is added to it"
            )
        return found

    def _explain(self, error: Exception, batch: Batch) -> None:
        """Raise SettingError for an error of torch or Opacus, or the error of the model without clipping."""
        with torch.enable_grad(), _FewBits() as few:
            self.losses(self.model(*batch[0]), batch[1])
        if few.found:
            raise SettingError(
                f"the model computes in {' and '.join(sorted(map(str, few.found)))}, as in torch.autocast: "
                f'so few bits do not tell what one sample adds. Leave that out for clipping="{self.way}"'
            ) from error
        if not isinstance(error, DuetError):
            others = " or ".join(f'"{way}"' for way in CLIPPINGS if way not in (self.way, Opacus.way))
            raise SettingError(
                f'clipping="{self.way}" does not take this model or batch, which runs without it: '
                f"{type(error).__name__}: {error}; {others} may take it"
            ) from error

    def _check_parameters(self, layers: list[nn.Module]) -> None:
        """Raise SettingError if a layer has a parameter to train that it did not have at first."""
        for layer in layers:
            for own, p in layer._parameters.items():
                if p is not None and p.requires_grad and self._at_first.get((layer, own)) is not p:
                    names = [name for name, found in self.model.named_parameters() if found is p]
                    raise SettingError(
                        f"{', '.join(names)} is none of the parameters that were to be trained when this "
                        "training was made: the model has changed since, so make another DpSgd"
                    )

    def check_apart(self, batch: Batch) -> bool:
        """Return True if the batch shows that no sample's loss depends on another sample; see `apart.py`.

        Raises:
            SettingError: the batch shows that one does.
        """
        return check_apart(self.model, self.losses, batch)

    @abstractmethod
    def sum(self, batch: Batch) -> ClippedSum:
        """Return the sum of the clipped gradients of a batch of at least one sample."""

    def zeros(self) -> dict[str, Tensor]:
        """Return the sum of an empty batch."""
        return {name: torch.zeros_like(p) for name, p in self.parameters.items()}

    def check(self, ours: dict[str, Tensor], plain: Sequence[Tensor]) -> bool:
        """Compare the sum of the samples' gradients with `plain`, the gradient of training without privacy.

        Returns False if the batch shows nothing, since a sample is not finite.

        Raises:
            SettingError: they differ; the model does something that this way does not see.
        """
        for (name, gradient), expected in zip(ours.items(), plain, strict=True):
            if not torch.allclose(gradient, expected, rtol=1e-3, atol=1e-5, equal_nan=True):
                raise SettingError(
                    f"the samples' gradients of {name} do not add up to its gradient: it is used outside of "
                    'its layer\'s own call, or changed in place; clipping="per_sample" takes such models'
                )
        return all(bool(torch.isfinite(expected).all()) for expected in plain)

    def plain(self, total: Tensor) -> Sequence[Tensor]:
        """Return the gradient of the sum of all losses, by parameter."""
        parameters = list(self.parameters.values())
        return torch.autograd.grad(
            total, parameters, retain_graph=True, allow_unused=True, materialize_grads=True
        )

    def weights(self, norms: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return each sample's scale factor, and the samples that count, as a mask; None if all do.

        A sample whose gradient is not finite, or nearly infinite, does not count.
        """
        weights, most = self.clip / norms.clamp(min=self.clip), self.clip / _LEAST_WEIGHT
        return weights, None if float(norms.max()) <= most else norms <= most  # both are False for NaN

    def losses(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return one loss for each sample. Raises SettingError for another shape."""
        losses = self.loss(outputs, targets)
        if losses.shape != targets.shape[:1]:
            losses = losses.flatten(1).mean(1) if losses.dim() > 1 else losses
        if losses.shape != targets.shape[:1]:
            raise SettingError(
                f"the loss of a batch of {len(targets)} samples has the shape {tuple(losses.shape)}: it has "
                'to be one number for each sample, such as by reduction="none"'
            )
        return losses


class PerSample(Clipping):
    """Makes every sample's gradient with torch.func, and then the sum.

    Takes B times the memory of the model; works for any model that torch.func can differentiate.
    """

    way = "per_sample"

    def check_apart(self, batch: Batch) -> bool:
        """Return True: each sample runs through the model by itself."""
        return True

    def sum(self, batch: Batch) -> ClippedSum:
        inputs, targets = batch
        parameters = {name: p.detach() for name, p in self.parameters.items()}

        def one(parameters: dict[str, Tensor], inputs: tuple[Tensor, ...], target: Tensor) -> Tensor:
            outputs = functional_call(self.model, parameters, tuple(x.unsqueeze(0) for x in inputs))
            return self.losses(outputs, target.unsqueeze(0)).squeeze(0)

        gradients = vmap(grad(one), in_dims=(None, 0, 0), randomness="different")
        try:
            each = gradients(parameters, inputs, targets)
        except RuntimeError as error:
            raise SettingError(
                f"torch.func makes no gradient of each sample for this model or batch: {error}"
            ) from error
        return _weighted_sum(self, each)


class BookKeeping(Clipping):
    """Makes the sum without keeping every sample's gradient.

    Norms and the sum follow from activations and the gradients of outputs, in one backward pass (Bu et al.,
    "Differentially Private Optimization on Large Model at Small Cost", 2023). The first batch is compared
    with the gradient that autograd makes: a parameter that is used outside of its layer would show there.
    """

    way = "bookkeeping"

    def __init__(self, model: nn.Module, loss: Loss, clip: float) -> None:
        super().__init__(model, loss, clip)
        self._layers = {
            prefix: layer
            for prefix, layer in model.named_modules()
            if trainable(layer) and not list(layer.children())
        }
        held = {id(p) for layer in self._layers.values() for p in trainable(layer).values()}
        for name, p in self.parameters.items():
            if id(p) not in held:
                raise SettingError(
                    f"{name} belongs to no layer of its own (a module that has others inside): "
                    'clipping="per_sample" takes such models'
                )
        # a parameter that several layers share adds up over them before it has a norm
        holders = [id(p) for layer in self._layers.values() for p in trainable(layer).values()]
        self._shared = len(holders) != len(set(holders))
        self._checked = False

    def sum(self, batch: Batch) -> ClippedSum:
        inputs, targets = batch
        calls: list[_Call] = []
        with torch.enable_grad(), _recorded(self._layers, calls, len(targets)):
            losses = self.losses(self.model(*inputs), targets)
            total = losses.sum()
        if not calls:
            raise SettingError("no layer with parameters was called: the outputs do not depend on any")
        some = [] if self._checked else [self.plain(loss) for loss in losses[:_LOOKED_AT]]
        plain = None if self._checked else self.plain(total)
        backs = torch.autograd.grad(total, [call.edge for call in calls], allow_unused=True)
        with torch.no_grad():
            used = [(call, back) for call, back in zip(calls, backs, strict=True) if back is not None]
            names = [call.name for call, _ in used]
            again = self._shared or len(names) != len(set(names))
            if again:
                each = self._each(used, len(targets))
                if plain is not None:
                    self._checked = self.check({name: g.sum(0) for name, g in each.items()}, plain)
                return _weighted_sum(self, each)
            gradients = self._gradients(used)
            norms = [found.norms() for _, found in gradients]
            if plain is not None:
                ones = torch.ones(len(targets), dtype=torch.float64)
                self._checked = self.check(self._added(gradients, ones), plain)
                self._check_norms([call for call, _ in used], norms, some)
            of_samples = torch.stack([norm for each in norms for norm in each], 1)  # rows are faster
            whole = torch.linalg.vector_norm(of_samples, dim=1)
            weights, among = self.weights(whole)
            if among is not None:  # infinity times 0 would be NaN
                if not among.any():
                    return ClippedSum(self.zeros(), whole)
                gradients, weights = self._gradients(used, among), weights[among]
            return ClippedSum(self._added(gradients, weights), whole)

    def _gradients(
        self, used: list[tuple[_Call, Tensor]], among: Tensor | None = None
    ) -> list[tuple[_Call, LayerGradients]]:
        made, room = [], _KEPT_BYTES
        for call, back in used:
            inputs = call.inputs
            if among is not None:
                inputs, back = inputs[among], back[among]
            found = gradients_of(call.layer, inputs, back, room)
            room -= found.kept_bytes
            made.append((call, found))
        return made

    def _added(self, gradients: list[tuple[_Call, LayerGradients]], weights: Tensor) -> dict[str, Tensor]:
        found = {
            call.full(name): gradient
            for call, layer in gradients
            for name, gradient in layer.weighted(weights).items()
        }
        return {
            name: found[name] if name in found else torch.zeros_like(p) for name, p in self.parameters.items()
        }

    def _check_norms(
        self, calls: list[_Call], norms: list[list[Tensor]], some: Sequence[Sequence[Tensor]]
    ) -> None:
        """Compare each layer's norms with `some`, the gradients of the first samples made by autograd, by
        parameter.

        Raises:
            SettingError: a norm is less than that of the gradient, so that the sample would not be clipped.
                (It may be more, where positions nearly cancel each other.)
        """
        for call, ours in zip(calls, norms, strict=True):
            names = {call.full(name) for name in trainable(call.layer)}
            for at, made in enumerate(some):
                own = [
                    g.double().flatten()
                    for name, g in zip(self.parameters, made, strict=True)
                    if name in names
                ]
                norm, taken = float(torch.cat(own).norm()), math.hypot(*(float(found[at]) for found in ours))
                if math.isfinite(norm) and taken < (1.0 - _ROUNDED) * norm:
                    raise SettingError(
                        f"{call.name or 'the model'}, a {type(call.layer).__name__}: a sample's gradient has "
                        f"a norm of {norm:.3g}, and of {taken:.3g} by the rule for such layers, so that it "
                        'would not be clipped; clipping="per_sample" takes such models'
                    )

    def _each(self, used: list[tuple[_Call, Tensor]], samples: int) -> dict[str, Tensor]:
        """Make every sample's gradient, for parameters that are used more than once."""
        canonical = {id(p): name for name, p in self.parameters.items()}
        found = {name: p.new_zeros((samples, *p.shape)) for name, p in self.parameters.items()}
        for call, back in used:
            own = trainable(call.layer)
            for name, gradients in sample_gradients(call.layer, call.inputs, back).items():
                found[canonical[id(own[name])]] += gradients
        return found


class Opacus(Clipping):
    """Makes every sample's gradient by the hooks of Opacus."""

    way = "opacus"

    def __init__(self, model: nn.Module, loss: Loss, clip: float) -> None:
        super().__init__(model, loss, clip)
        try:
            from opacus import GradSampleModule
        except ImportError:
            raise MissingLibrary('clipping="opacus" needs Opacus: pip install opacus') from None
        self._wrap: Any = GradSampleModule
        self._checked = False

    def sum(self, batch: Batch) -> ClippedSum:
        inputs, targets = batch
        wrapped = self._wrap(self.model, loss_reduction="sum", strict=True)
        try:
            with torch.enable_grad():
                total = self.losses(wrapped(*inputs), targets).sum()
            torch.autograd.backward(total)
            each = {name: _opacus_gradients(p) for name, p in self.parameters.items()}
            if not self._checked:
                plain = [_given(p.grad) for p in self.parameters.values()]
                ours = {name: gradients.sum(0) for name, gradients in each.items()}
                self._checked = self.check(ours, plain)
            return _weighted_sum(self, each)
        finally:
            wrapped.to_standard_module()
            for p in self.parameters.values():
                p.grad = None


def _given(gradient: Tensor | None) -> Tensor:
    assert gradient is not None
    return gradient


def _opacus_gradients(parameter: Any) -> Tensor:
    gradients: Tensor = parameter.grad_sample
    return gradients


CLIPPINGS: dict[str, type[Clipping]] = {kind.way: kind for kind in (BookKeeping, PerSample, Opacus)}


def _modules(model: nn.Module) -> list[nn.Module]:
    """Return the model and all layers in it, each once; `model.modules()` takes longer than a small layer."""
    found, known = [model], {model}
    for layer in found:
        for child in layer._modules.values():
            if child is not None and child not in known:
                known.add(child)
                found.append(child)
    return found


def _buffers(layers: list[nn.Module]) -> list[Tensor]:
    return [buffer for layer in layers for buffer in layer._buffers.values() if buffer is not None]


def _held(layers: list[nn.Module]) -> list[tuple[int, int]]:
    """Return the identity and the write count of every parameter and buffer."""
    return [
        (id(t), t._version)
        for layer in layers
        for t in (*layer._parameters.values(), *layer._buffers.values())
        if t is not None
    ]


def _are_held(buffers: Sequence[Tensor], before: Sequence[Tensor]) -> bool:
    """Compare the buffers with their old values, and restore them if they differ.

    Write counts are not enough: some kernels of torch write without counting.
    """
    same = [torch.equal(one, other) for one, other in zip(buffers, before, strict=True)]
    if not all(same):
        with torch.no_grad():
            for buffer, other in zip(buffers, before, strict=True):
                buffer.copy_(other)
    return all(same)


class _FewBits(TorchDispatchMode):
    """Notes the floating dtypes below float32 that a model computes with, also in torch's autocast."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outputs = func(*args, **(kwargs or {}))
        for made in outputs if isinstance(outputs, tuple | list) else (outputs,):
            if isinstance(made, Tensor) and made.is_floating_point() and made.dtype not in _DTYPES:
                self.found.add(made.dtype)
        return outputs


class _Call(NamedTuple):
    """One call of a layer in a forward pass."""

    name: str
    layer: nn.Module
    inputs: Tensor
    edge: GradientEdge  # of its output as returned; a later change in place makes another edge

    def full(self, name: str) -> str:
        return f"{self.name}.{name}" if self.name else name


@contextlib.contextmanager
def _recorded(layers: dict[str, nn.Module], calls: list[_Call], samples: int) -> Iterator[None]:
    """While the model runs, record its layers' inputs and outputs in `calls`."""

    def note(name: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
        def hook(layer: nn.Module, inputs: tuple[Any, ...], outputs: Any) -> None:
            if len(inputs) != 1 or not isinstance(inputs[0], Tensor) or not isinstance(outputs, Tensor):
                raise SettingError(
                    f"{name}, a {type(layer).__name__}, takes or returns more than one tensor: "
                    'clipping="per_sample" takes such models'
                )
            if inputs[0].shape[:1] != (samples,):
                raise SettingError(
                    f"{name} got {len(inputs[0])} samples of {samples}: the first dimension has to count the "
                    "samples from the model's input to its output"
                )
            if outputs.requires_grad:
                calls.append(_Call(name, layer, inputs[0].detach(), get_gradient_edge(outputs)))

        return hook

    handles = [layer.register_forward_hook(note(name)) for name, layer in layers.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _weighted_sum(clipping: Clipping, each: dict[str, Tensor]) -> ClippedSum:
    """Clip and sum the samples' gradients, each of shape (B, *parameter's)."""
    squares = [
        torch.linalg.vector_norm(g.flatten(1), dim=1, dtype=torch.float64).square() for g in each.values()
    ]
    norms = torch.stack(squares).sum(0).sqrt()
    weights, among = clipping.weights(norms)
    if among is not None:
        weights, each = weights[among], {name: g[among] for name, g in each.items()}
    return ClippedSum({name: torch.tensordot(weights.to(g.dtype), g, 1) for name, g in each.items()}, norms)
