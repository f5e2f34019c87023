"""Dense torch tensors, in their memory order. Devices are not sent: everything arrives on the CPU."""

from __future__ import annotations

import math
from typing import Any

import torch

from duetlink.data.accelerators.copy_stream import on_accelerator
from duetlink.data.accelerators.host_copies import fetched
from duetlink.data.codecs.element import BY_NAME
from duetlink.data.values import reach
from duetlink.data.values.base import Reader, Writer
from duetlink.data.values.schema_pb2 import Node, Tensor
from duetlink.errors import MalformedValue

_NAMES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    "float4_e2m1fn_x2",
)
# float8 and float4 come and go with torch's version
_DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in _NAMES if hasattr(torch, name)}
# dtypes that have NaNs, and the dtype of their parts
_FLOATS = {
    dtype: {
        torch.complex32: torch.float16,
        torch.complex64: torch.float32,
        torch.complex128: torch.float64,
    }.get(dtype, dtype)
    for name, dtype in _DTYPES.items()
    if name.startswith(("float", "bfloat", "complex")) and not name.startswith("float4")
}
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class TorchType:
    def describe(self, obj: Any) -> str:
        if isinstance(obj, torch.Tensor):
            return f"{str(obj.dtype).removeprefix('torch.')} {tuple(obj.shape)}"
        return ""

    def elements(self, obj: Any) -> int | None:
        if not isinstance(obj, torch.Tensor):
            return 1
        return obj.numel() or max(
            1, sum(1 for count in obj.shape if count)
        )  # an empty tensor still has a shape

    def write(self, obj: Any, writer: Writer) -> None:
        remedy = _remedy(obj)
        if remedy:
            raise writer.unsupported(obj, remedy)
        tensor = obj.detach()
        order = _order(tensor)
        name = str(tensor.dtype).removeprefix("torch.")
        element = name if name in BY_NAME else "uint8"
        in_memory = tuple(tensor.permute(order).shape if order else tensor.shape)
        coded = None
        if tensor.is_floating_point() and element == name:
            coded = writer.coded(element, in_memory, lambda: _memory(tensor, order, writer.plain_nan))
        writer.node(
            tensor=Tensor(
                dtype=_DTYPE_NAMES[tensor.dtype],
                shape=tensor.shape,
                order=order,
                requires_grad=obj.requires_grad,
                parameter=type(obj) is torch.nn.Parameter,
                coded=coded is not None,
            )
        )
        if coded is not None:
            writer.segment(len(coded), lambda: [memoryview(coded)])
            return
        size_bytes = tensor.numel() * tensor.element_size()
        row_bytes = size_bytes // (in_memory[0] if in_memory else 1) if size_bytes else 0
        writer.segment(
            size_bytes,
            lambda: [_memory(tensor, order, writer.plain_nan)],
            element=element,
            row_bytes=row_bytes,
        )

    def read(self, node: Node, reader: Reader) -> object:
        wire = node.tensor
        if wire.dtype not in _DTYPES:
            raise MalformedValue(f"dtype {wire.dtype[:40]!r} is unknown to torch {torch.__version__}")
        dtype, shape = _DTYPES[wire.dtype], tuple(wire.shape)
        reach.check(shape, math.prod(shape) * dtype.itemsize)
        view = reader.decoded(math.prod(shape) * dtype.itemsize) if wire.coded else reader.segment()
        tensor = _tensor(dtype, shape, list(wire.order), view)
        requires_grad = wire.requires_grad and reader.gradients
        if wire.parameter:
            return torch.nn.Parameter(tensor, requires_grad=requires_grad)
        return tensor.requires_grad_(True) if requires_grad else tensor


def _remedy(obj: Any) -> str:
    """Return advice for an object that cannot be sent; empty if it can."""
    if isinstance(obj, torch.nn.Module):
        return "code does not travel; send its .state_dict()"
    if isinstance(obj, torch.Size):
        return "send tuple(…) of it"
    if type(obj) not in (torch.Tensor, torch.nn.Parameter):
        return (
            "send a plain tensor, for instance .as_subclass(torch.Tensor)"
            if _is_tensor(obj)
            else "send tensors"
        )
    if obj.is_quantized:
        return "it is quantized; send .dequantize(), or .int_repr() with scale and zero point"
    if obj.is_nested or obj.layout is not torch.strided:
        return "it is not dense; send .to_dense(), or its indices and values"
    if obj.device.type == "meta":
        return "it is on the meta device and has no data"
    if obj.dtype not in _DTYPE_NAMES:
        return f"dtype {obj.dtype} does not travel; convert it with .to(…)"
    return ""


def _is_tensor(obj: Any) -> bool:
    return isinstance(obj, torch.Tensor)


def _order(tensor: torch.Tensor) -> list[int]:
    """Return the order of dimensions in memory of a dense but permuted tensor (channels_last), else empty."""
    if tensor.is_contiguous() or tensor.numel() == 0:
        return []
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda dim: (-strides[dim], -tensor.shape[dim]))
    return order if tensor.permute(order).is_contiguous() else []


def _memory(tensor: torch.Tensor, order: list[int], plain_nan: bool) -> memoryview:
    if tensor.numel() == 0:
        return memoryview(b"")
    if order:
        tensor = tensor.permute(order)
    if on_accelerator(tensor):
        tensor = fetched(tensor)
    else:
        tensor = tensor.resolve_conj().resolve_neg().cpu().contiguous()
    # not reshape: a dimension of one item may keep any stride, which view to another size refuses
    items = _shown(tensor.as_strided((tensor.numel(),), (1,)), plain_nan)
    octets: Any = items.view(torch.uint8).numpy()
    return memoryview(octets)


def _shown(items: torch.Tensor, plain_nan: bool) -> torch.Tensor:
    """Return bools as 0 or 1 and, with `plain_nan`, NaNs with equal bits; copy only if needed."""
    if items.dtype is torch.bool:
        octets = items.view(torch.uint8)
        return items if int(octets.max()) <= 1 else octets.clamp(max=1).view(torch.bool)
    if not plain_nan or items.dtype not in _FLOATS:
        return items
    parts = items.view(_FLOATS[items.dtype])
    # torch finds NaNs of one-byte floats only after a conversion
    nan = parts.float().isnan() if parts.element_size() == 1 else parts.isnan()
    if not nan.any():
        return items
    bits = parts.view(_INTEGERS[parts.element_size()])
    plain = torch.tensor(math.nan).to(parts.dtype).view(bits.dtype)
    return items if bool((bits[nan] == plain).all()) else bits.masked_fill(nan, plain).view(items.dtype)


def _tensor(dtype: torch.dtype, shape: tuple[int, ...], order: list[int], view: memoryview) -> torch.Tensor:
    size = math.prod(shape) * dtype.itemsize
    if size != len(view):
        raise MalformedValue(f"a tensor of {size:,} bytes came with {len(view):,}")
    if size == 0:
        return torch.empty(shape, dtype=dtype)
    # a tensor cannot be read-only: writing to a view of a read-only mapping would end the process
    octets = torch.frombuffer(bytearray(view) if view.readonly else view, dtype=torch.uint8)
    if octets.data_ptr() % dtype.itemsize:
        octets = octets.clone()
    flat = octets.view(dtype)
    if not order:
        return flat.view(shape)
    if sorted(order) != list(range(len(shape))):
        raise MalformedValue("a tensor's order of dimensions is not a permutation")
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return flat.view([shape[dim] for dim in order]).permute(inverse)


HANDLER = TorchType()
