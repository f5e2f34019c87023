"""Mocks of torch tensors and parameters. A mock is dense and on the CPU, as is everything that is sent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from duetlink.compute.mocks.base import Span
from duetlink.compute.mocks.draw import Array, ColumnSampler
from duetlink.compute.mocks.numpy_ import TRUTH_VALUES, ArrayFacts
from duetlink.compute.mocks.registry import unsupported
from duetlink.compute.mocks.scope import Scope


class TorchMockBuilder:
    def rows(self, obj: Any) -> int | None:
        return len(obj) if isinstance(obj, torch.Tensor) and obj.dim() else None

    def size_bytes(self, obj: Any) -> int:
        return obj.numel() * obj.dtype.itemsize if isinstance(obj, torch.Tensor) else 0

    def make(self, obj: Any, scope: Scope) -> object:
        if type(obj) not in (torch.Tensor, torch.nn.Parameter):
            raise unsupported(obj, "it is no plain tensor")
        if obj.is_quantized or obj.is_nested or obj.layout is not torch.strided or obj.device.type == "meta":
            raise unsupported(obj, "it is not dense")
        shape = (scope.rows(len(obj)), *obj.shape[1:]) if obj.dim() else ()
        draw = scope.draw(_TensorFacts(obj.detach()))
        values = _column(obj.dtype, math.prod(shape), draw)
        gaps = draw.gaps(len(values))
        if gaps.any() and (obj.is_floating_point() or obj.is_complex()):
            values[torch.from_numpy(gaps)] = torch.nan
        values = values.reshape(shape)
        if type(obj) is torch.nn.Parameter:
            return torch.nn.Parameter(values, requires_grad=obj.requires_grad)
        return values.requires_grad_(obj.requires_grad)

    def differences(self, obj: Any, mock: Any) -> Iterator[str]:
        if not isinstance(obj, torch.Tensor):
            return
        if obj.dim() != mock.dim():
            yield f"the object has {obj.dim()} dimensions, the mock {mock.dim()}"
        for name in ("dtype", "requires_grad"):
            if getattr(obj, name) != getattr(mock, name):
                yield f"the object's {name} is {getattr(obj, name)}, the mock's {getattr(mock, name)}"

    def memory(self, obj: Any) -> Iterator[Span]:
        # device addresses are compared as well; they never equal an address of this process's memory
        if isinstance(obj, torch.Tensor) and obj.layout is torch.strided and obj.numel():
            last = sum((size - 1) * stride for size, stride in zip(obj.shape, obj.stride(), strict=True))
            start = obj.data_ptr()
            yield Span("tensor", start, start + (last + 1) * obj.element_size(), obj)

    def part(self, obj: Any, start: int, stop: int) -> Any:
        return obj[start:stop]

    def equal(self, left: Any, right: Any) -> bool:
        if (
            not isinstance(left, torch.Tensor)
            or left.shape != right.shape
            or left.dtype != right.dtype
            or not left.numel()
        ):
            return False
        return bool(torch.equal(_octets(left), _octets(right)))

    def is_ordinary(self, obj: Any) -> bool:
        if not isinstance(obj, torch.Tensor):
            return False
        few = TRUTH_VALUES if obj.dtype == torch.bool else 2 if _is_whole(obj.dtype) else 1
        return obj.numel() < few


def _octets(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach().resolve_conj().resolve_neg().cpu()
    # a copy, since a tensor of one item may keep any stride, which a view as bytes refuses
    return plain.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)


def _column(dtype: torch.dtype, count: int, draw: ColumnSampler) -> torch.Tensor:
    """Return a one-dimensional tensor of a dtype, without missing values."""
    chosen = draw.chosen(count, lambda values: _converted(values, dtype))
    if chosen is not None:
        choices, picks = chosen
        return torch.as_tensor(choices[torch.from_numpy(picks)])
    name = str(dtype).removeprefix("torch.")
    if dtype == torch.bool:
        return torch.from_numpy(draw.integers(count, 0, 1, name)).to(dtype)
    if dtype.is_floating_point:
        return _floats(dtype, count, draw, name)
    if dtype.is_complex:
        return torch.view_as_complex(_floats(dtype.to_real(), 2 * count, draw, name).reshape(count, 2))
    limits = torch.iinfo(dtype)
    values = draw.integers(count, limits.min, limits.max, name)
    return torch.from_numpy(values.astype(name))


def _floats(dtype: torch.dtype, count: int, draw: ColumnSampler, name: str) -> torch.Tensor:
    if dtype.itemsize == 1 and name.startswith(
        "float4"
    ):  # two items in a byte: torch has no conversion to it
        draw.unbounded(name)
        return torch.from_numpy(draw.octets(count, 1).reshape(count)).view(dtype)

    def rounded(values: Array) -> Array:
        wide: Array = torch.from_numpy(values).to(dtype).to(torch.float64).numpy()
        return wide

    return torch.from_numpy(draw.floats(count, torch.finfo(dtype).max, name, rounded)).to(dtype)


def _converted(values: Any, dtype: torch.dtype) -> torch.Tensor:
    try:
        converted = torch.tensor(list(values), dtype=dtype)
    except RuntimeError as error:
        raise ValueError(str(error).partition("\n")[0]) from None
    wide = torch.complex128 if dtype.is_complex else torch.float64
    exact = None if _is_whole(dtype) else torch.tensor(list(values), dtype=wide).to(dtype)
    back = converted.tolist()
    if back != (list(values) if exact is None else exact.tolist()) or not bool(converted.isfinite().all()):
        raise ValueError(f"{dtype} changes them")
    return converted


def _is_whole(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex


class _TensorFacts:
    """The facts of a tensor, computed by NumPy on the same numbers."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self.discrete = _is_whole(tensor.dtype) and tensor.dtype != torch.bool

    def bounds(self) -> tuple[Any, Any] | None:
        return self._facts().bounds()

    def counts(self) -> Mapping[Any, int]:
        return self._facts().counts()

    def missing(self) -> float:
        return self._facts().missing()

    def _facts(self) -> ArrayFacts:
        tensor = self._tensor.resolve_conj().resolve_neg().cpu()
        if tensor.is_floating_point() and tensor.dtype != torch.float64:
            tensor = tensor.to(torch.float32)
        elif tensor.is_complex():
            tensor = tensor.to(torch.complex64 if tensor.dtype.itemsize < 8 else tensor.dtype)
        return ArrayFacts(np.asarray(tensor.numpy()))


HANDLER: Any = TorchMockBuilder()
