"""Pointers to torch tensors. They are tensors themselves, so modules, losses and optimisers accept them.

The memory of such a tensor is that of its mock. torch passes each operation on it to `torch_function`, which
runs it on the mocks and records it. Autograd works on the mocks here, and on the real tensors at the owner.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import torch

from duetlink.compute.operations.allow_lists.torch_names import METADATA_NAMES, name_of_torch
from duetlink.compute.operations.sizes.lookup import hidden_after
from duetlink.duet.asking.mocks import mock_shown
from duetlink.duet.asking.mocks.mock_tensors import AsMocks, refuse_dispatch
from duetlink.duet.asking.pointers import transforms
from duetlink.duet.asking.pointers.result_requests import ResultRequests
from duetlink.duet.asking.recording import sizes
from duetlink.duet.asking.recording.program import Program, is_remote, mock_of
from duetlink.errors import OperationRefused, PrivateValue

_VALUES = frozenset(
    [
        "item",
        "tolist",
        "numpy",
        "__bool__",
        "__float__",
        "__int__",
        "__index__",
        "__complex__",
        "__array__",
        "__contains__",
        "is_nonzero",
    ]
)


class TensorPointer(ResultRequests, torch.Tensor):
    """A pointer to a tensor at the owner. On this side only its mock can be seen."""

    _is_remote: ClassVar[bool] = True
    _program: Program
    _id: int
    _hidden: int = 0

    @classmethod
    def _of(cls, program: Program, mock: torch.Tensor, id_: int, hidden: int = 0) -> TensorPointer:
        with AsMocks():
            made = mock if isinstance(mock, cls) else mock.as_subclass(cls)
        made._program = program
        made._id = id_
        if hidden != made._hidden:
            made._hidden = hidden
        return made

    @property
    def _mock(self) -> torch.Tensor:
        return self

    @property
    def mock(self) -> torch.Tensor:
        """The made-up stand-in, as a plain tensor."""
        with AsMocks():
            mock = torch.Tensor.as_subclass(self.detach(), torch.Tensor)
            self._program.echoes.hand_out(mock, self._id)
        return mock

    def __del__(self) -> None:
        id_ = self.__dict__.get("_id")
        if id_ is not None:
            program = self.__dict__["_program"]
            program.drop(id_)
            program.echoes.own.discard(id_)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        return torch_function(function, arguments, keywords or {})

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, arguments: Any = (), keywords: Any = None
    ) -> Any:
        refuse_dispatch(function)

    def _look_up(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> NoReturn:
        raise TypeError("get() of a tensor takes no key: .get(reason=…) asks for all of it")

    def as_subclass(self, cls: Any) -> NoReturn:
        """Raise PrivateValue: the result would be the mock as a plain tensor."""
        raise PrivateValue("a tensor at the owner is no plain tensor here; its mock is: .mock")

    def _title(self) -> str:
        return f"result {self._id}, a tensor at the owner"

    def __repr__(self, *, tensor_contents: Any = None) -> Any:  # type: ignore[override]
        return f"<{self._title()}; {sizes.mock_words(self)}:\n{mock_shown.text_of(self.mock)}>"

    def __format__(self, specification: str) -> str:
        if specification:
            raise PrivateValue(
                f"the text in the format {specification!r} of {self._title()} is not known here: ask for it "
                "with .get(reason=…), or decide by its mock: .mock"
            )
        return str(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        raise OperationRefused("a tensor at the owner is copied with .clone()")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise OperationRefused("a pointer is good in this duet only: save what duet.fetch() returns")


def torch_function(function: Any, arguments: Any, keywords: Any) -> Any:
    """Call a function of torch with the mocks, record it, and return pointers to the result.

    Raises:
        OperationRefused: the function is in no list, or is used in a way that the owner could not repeat.
        PrivateValue: it asks for a plain value or a private size.
    """
    if function in (torch._has_compatible_shallow_copy_type, _SET_DATA):  # Module.to, .cpu, .float, …
        return _conversion(function, *arguments)
    function, arguments, keywords = _in_other_words(function, arguments, keywords)
    name = name_of_torch(function)
    if name is None or name in METADATA_NAMES:
        called = getattr(function, "__name__", str(function))
        if called in _VALUES:
            asked = "bool" if called == "is_nonzero" else called.strip("_")
            raise PrivateValue(
                f"{asked} of a tensor at the owner is not known here: ask for it with .get(reason=…), or "
                "decide by its mock: .mock"
            )
        if function is torch.Tensor.type:
            with AsMocks():
                return mock_of(arguments[0]).type()
        if called == "_is_all_true":
            raise PrivateValue(
                "whether the parameters of this distribution are in range is not known here: make it with "
                "validate_args=False"
            )
        if called in ("register_hook", "register_post_accumulate_grad_hook"):
            transforms.refuse_code_in_backward(called)
        if name is None:
            raise OperationRefused(f"torch's {called} is in no list of what may be done with private data")
        answer = sizes.of_tensor(name, arguments, keywords)
        if answer is not None:
            return answer
        with AsMocks():
            return function(
                *map(mock_of, arguments), **{key: mock_of(item) for key, item in keywords.items()}
            )
    if not torch.is_grad_enabled():
        transforms.refuse_within_function()
    elif name.startswith("torch.nn.init."):  # these write to leaves that require gradients, under no_grad
        with torch.no_grad():
            return torch_function(function, arguments, keywords)
    transforms.refuse_within()
    out = keywords.get("out")
    if is_remote(out):  # recorded as two steps, the second of which is the listed in-place operation copy_
        made = torch_function(function, arguments, {k: v for k, v in keywords.items() if k != "out"})
        return torch_function(torch.Tensor.copy_, (out, made), {})
    if keywords.get("inplace") is True:  # a layer with inplace=True: its result is copied into its input
        target = arguments[0] if arguments else keywords["input"]
        given = {key: item for key, item in keywords.items() if key not in ("inplace", "input")}
        made = torch_function(function, (target.clone(), *arguments[1:]), given)
        return torch_function(torch.Tensor.copy_, (target, made), {})
    program = _program_of((*arguments, *keywords.values()))
    taken = program.take(name, arguments, keywords)
    with AsMocks():
        mock = program.run_on_mocks(name, function, taken)
    if is_remote(mock) and any(mock is argument for argument in taken.mocks):  # in place
        program.record(0, name, taken.encoded, taken.encoded_by_name, settings=taken.settings)
        program.drop_arguments()
        return mock
    if mock is None:
        return program.record_no_result(name, taken.encoded, taken.encoded_by_name, settings=taken.settings)
    with AsMocks():
        hidden = hidden_after(name, taken.arguments, taken.keywords, taken.mocks, mock, program.allowed)
    return program.record_result(
        name, taken.encoded, taken.encoded_by_name, mock, hidden, settings=taken.settings
    )


_SET_DATA = vars(torch._C.TensorBase)["data"].__set__


def _conversion(function: Any, old: torch.Tensor, new: torch.Tensor) -> bool | None:
    """Answer the two calls by which `Module.to` replaces the memory of a parameter.

    torch first asks whether the converted tensor fits, then sets `parameter.data`. Both succeed if the tensor
    is unchanged.

    Raises:
        OperationRefused: the parameter would get other memory, while optimisers and the owner keep the old.
    """
    if old is not new:
        raise OperationRefused(
            "the memory of a tensor at the owner is not replaced: convert a model before it is placed, as in "
            "duet.remote(model.double()), and change a tensor with .copy_(…) within torch.no_grad()"
        )
    return True if function is not _SET_DATA else None


def _in_other_words(function: Any, arguments: Any, keywords: Any) -> tuple[Any, Any, Any]:
    """Rewrite a call to the form that the allow-lists know.

    `where(condition)` becomes `nonzero`, and `x.type(dtype)` becomes `x.to(dtype)`.
    """
    if "tensor" in keywords and function.__module__ == "torch.nn.init":  # they pass `tensor` by its name
        given = {name: value for name, value in keywords.items() if name != "tensor" and value is not None}
        return function, (keywords["tensor"],), given
    if function in (torch.where, torch.Tensor.where) and len(arguments) == 1 and not keywords:
        return torch.nonzero, arguments, {"as_tuple": True}
    if function is torch.Tensor.type and (len(arguments) > 1 or keywords):
        kind = keywords.get("dtype", arguments[1] if len(arguments) > 1 else None)
        if isinstance(kind, torch.dtype):
            return torch.Tensor.to, (arguments[0], kind), {}
        raise OperationRefused(f".type takes a torch.dtype here, such as torch.float32, not {kind!r}")
    return function, arguments, keywords


def _program_of(arguments: Any) -> Program:
    for argument in arguments:
        if hasattr(type(argument), "_is_remote"):
            found: Program = argument._program
            return found
        if isinstance(argument, (list, tuple)):
            for part in argument:
                if hasattr(type(part), "_is_remote"):
                    return part._program  # type: ignore[no-any-return]
    raise OperationRefused("torch was called without a pointer")  # pragma: no cover


def make_tensors(program: Program) -> None:
    """Make `program` wrap its tensors in TensorPointer."""

    def make(mock: torch.Tensor, id_: int, hidden: int) -> TensorPointer:
        return TensorPointer._of(program, mock, id_, hidden)

    for kind in (torch.Tensor, TensorPointer, torch.nn.Parameter):
        program.register_pointer_type(kind, make)


def place_module(program: Program, module: torch.nn.Module) -> torch.nn.Module:
    """Move the parameters and buffers of `module` to the owner, in place, and return the module.

    Its `forward` still runs here, on mocks, and each of its operations is recorded: no code is sent. A
    parameter that two layers share stays shared, also with a module that was placed before. References to the
    old parameters, such as those of an optimiser made before, become `MovedParameter`.
    """
    placed: dict[torch.Tensor, TensorPointer] = {}  # by identity, as tensors are hashed

    def pointer_to(tensor: torch.Tensor) -> TensorPointer:
        if isinstance(tensor, MovedParameter) and tensor.moved_to._program is program:
            return tensor.moved_to
        if tensor not in placed:
            placed[tensor] = _placed(program, tensor)
        return placed[tensor]

    for part in module.modules():
        for tensors in (part._parameters, part._buffers):
            for name, tensor in tensors.items():
                if tensor is not None and not is_remote(tensor):
                    tensors[name] = pointer_to(tensor)  # type: ignore[assignment]
    for tensor, pointer in placed.items():
        if type(tensor) is torch.nn.Parameter:
            tensor.__class__ = MovedParameter
            tensor.moved_to = pointer  # type: ignore[attr-defined]
    return module


class MovedParameter(torch.nn.Parameter):
    """A parameter that belonged to a module until the module was placed at the owner.

    The module no longer uses its numbers, so an optimiser that holds it would train nothing. Any operation on
    it raises OperationRefused.
    """

    moved_to: TensorPointer

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        raise OperationRefused(
            "this parameter was taken out of a module before duet.remote(module) placed it at the owner, and "
            "is not its parameter any more: make the optimiser afterwards, from module.parameters()"
        )


def place_tensor(program: Program, tensor: torch.Tensor) -> TensorPointer:
    """Place a copy of a tensor at the owner, and return a pointer to it; a leaf stays a leaf.

    Raises:
        OperationRefused: it was computed from tensors that require gradients; those would get none.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise OperationRefused(
            "a tensor that was computed from ones that gather gradients cannot be placed with its past: "
            "place what it was made from, or tensor.detach()"
        )
    return _placed(program, tensor)


def _placed(program: Program, tensor: torch.Tensor) -> TensorPointer:
    id_ = program.place(tensor.detach())
    with AsMocks():
        mock = tensor.detach().clone()
    made = TensorPointer._of(program, mock, id_)
    if isinstance(tensor, torch.nn.Parameter):
        made._is_param = True  # torch.nn.Parameter's own mark for what is one without being of its class
    if tensor.requires_grad:
        made.requires_grad_(True)
    return made


def fetched_module(
    module: torch.nn.Module, fetch: Callable[[dict[str, Any]], dict[str, Any]]
) -> torch.nn.Module:
    """Return a copy of `module` with plain parameters and buffers, which one call of `fetch` brings back."""
    placed = {
        id(tensor): tensor
        for part in module.modules()
        for tensor in (*part._parameters.values(), *part._buffers.values())
        if tensor is not None and is_remote(tensor)
    }
    state = {str(number): tensor.detach() for number, tensor in enumerate(placed.values())}
    values = fetch(state) if state else {}
    memo: dict[int, Any] = {}
    for (key, pointer), value in zip(placed.items(), values.values(), strict=True):
        here = value.detach()
        if getattr(pointer, "_is_param", False):
            here = torch.nn.Parameter(here, requires_grad=bool(pointer.requires_grad))
        memo[key] = here
    return copy.deepcopy(module, memo)


transforms.refuse_pointers(TensorPointer)
