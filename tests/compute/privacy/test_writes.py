"""In-place writes: whatever may have changed what a statistic is made from, before or after."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from duetlink.compute.operations.allowed import Allowed
from duetlink.compute.operations.program import Step
from duetlink.compute.privacy.lineage import Refusal, Route, Schemas, row_stable
from tests.compute.privacy.programs import Const, Program, Raw, Ref

# Each gets the asset, `x`, and `y = x * 2`, which the statistic is made from.
Write = Callable[[Program, Ref, Ref], object]

WRITES: dict[str, Write] = {
    "into the column": lambda p, x, y: p.do("operator.setitem", y, 0, 1e6),
    "into the asset": lambda p, x, y: p.do("operator.setitem", x, slice(None), 0.0),
    "added in place": lambda p, x, y: p.do("operator.iadd", y, 1),
    "torch's add_": lambda p, x, y: p.do(".add_", y, 1),
    "a method of torch that is in no list": lambda p, x, y: p.do(".frobnicate_", y),
    "an attribute": lambda p, x, y: p.do("@=grad", y, x),
    "through a view": lambda p, x, y: p.do("operator.setitem", p.do(".view", y, -1), 0, 1e6),
    "through a view of a view": lambda p, x, y: p.do(
        "operator.setitem", p.do("operator.getitem", p.do(".view", x, -1), slice(0, 1)), 0, 1e6
    ),
    "through a container": lambda p, x, y: p.do(
        "operator.setitem", p.do("operator.getitem", p.do("builtins.list", [x, 1]), 0), 0, 1e6
    ),
    "through what may be the same": lambda p, x, y: p.do(".add_", p.do(".double", y), 1),
    "through detach": lambda p, x, y: p.do(".add_", p.do(".detach", y), 1),
    "through the asset opened again": lambda p, x, y: p.do(".add_", p.do("asset", "tensor", 1), 1),
    "through another revision": lambda p, x, y: p.do(".add_", p.do("asset", "tensor", 2), 1),
    "out as a keyword": lambda p, x, y: p.do("torch.add", p.do("torch.zeros", 2), 1, out=y),
    "out in a tuple": lambda p, x, y: p.do("numpy.modf", p.do("numpy.zeros", 2), out=(y, y)),
    "out by its place": lambda p, x, y: p.do("numpy.sqrt", p.do("numpy.zeros", 2), y),
    "out by its place in a reduction": lambda p, x, y: p.do("numpy.sum", p.do("value", 0), 0, None, y),
    "out by its place in a method": lambda p, x, y: p.do(".sum", p.do("value", 0), 0, None, y),
    "inplace": lambda p, x, y: p.do("torch.nn.functional.relu", y, inplace=True),
    "inplace by its place": lambda p, x, y: p.do("torch.nn.functional.relu", y, True),
    "without a copy": lambda p, x, y: p.do("numpy.nan_to_num", y, copy=False),
    "without a copy by its place": lambda p, x, y: p.do("numpy.nan_to_num", y, False),
    "a copy to it": lambda p, x, y: p.do("numpy.copyto", y, 0.0),
    "a function that writes": lambda p, x, y: p.do(
        "numpy.apply_along_axis", Raw(["f", "numpy.copyto"]), 0, y, 0.0
    ),
    "gradients": lambda p, x, y: p.do(".backward", y),
    "what is in no list": lambda p, x, y: p.do("some.thing", y),
    "hidden behind a number": lambda p, x, y: p.do("operator.setitem", Raw([99, y.id, [y.id]]), 0, 1),
    "in a dict": lambda p, x, y: p.do(".update", Raw(["d", "a", [y.id]])),
    "without a number": lambda p, x, y: p.steps.append(Step(0, "operator.setitem", [[y.id], 0, 1e6], {})),
}


def program(write: Write | None) -> tuple[Program, Ref]:
    p = Program()
    x = p.do("asset", "tensor", 1)
    y = p.do("operator.mul", x, 2)
    if write is not None:
        write(p, x, y)
    return p, p.do("operator.add", y, 1)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_is_found(write: Write, allowed: Allowed, schemas: Schemas) -> None:
    p, target = program(write)
    found = row_stable(p.steps, target.id, allowed, schemas)
    assert isinstance(found, Refusal)
    assert "may have changed, in place," in found.words


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_is_found_behind_the_column(write: Write, allowed: Allowed, schemas: Schemas) -> None:
    p, _ = program(None)
    target = Ref(3)
    write(p, Ref(1), Ref(2))
    assert isinstance(row_stable(p.steps, target.id, allowed, schemas), Refusal)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_does_not_matter_where_the_column_is_made_again(
    write: Write, allowed: Allowed, schemas: Schemas
) -> None:
    p, target = program(write)
    found = row_stable(p.steps, target.id, allowed, schemas, fresh=True)
    assert isinstance(found, Route)
    assert [step.operation for step in found.steps] == ["asset", "operator.mul", "operator.add"]


HARMLESS: dict[str, Write] = {
    "nothing": lambda p, x, y: None,
    "new things": lambda p, x, y: p.do("operator.iadd", p.do("operator.mul", x, 3), 1),
    "an aggregate": lambda p, x, y: p.do("operator.iadd", p.do(".sum", x), 1),
    "a loss and its gradients": lambda p, x, y: p.do(".backward", p.do("torch.nn.functional.mse_loss", y, x)),
    "something else": lambda p, x, y: p.do("operator.setitem", p.do("torch.zeros", 3), 0, 1.0),
    "another asset": lambda p, x, y: p.do("operator.iadd", p.do("asset", "others", 1), 1),
    "a conversion": lambda p, x, y: p.do(".to", x, Const("torch.float64")),
    "let go": lambda p, x, y: p.steps.append(Step(0, "drop", [1, 2], {})),
    "torch told to record": lambda p, x, y: p.do("grad", True),
}


@pytest.mark.parametrize("write", HARMLESS.values(), ids=HARMLESS)
def test_what_changes_other_things_is_no_reason(write: Write, allowed: Allowed, schemas: Schemas) -> None:
    p, target = program(write)
    found = row_stable(p.steps, target.id, allowed, schemas)
    assert isinstance(found, Route), found


def test_a_long_program_is_looked_at_in_bounded_time(allowed: Allowed, schemas: Schemas) -> None:
    """20,000 steps, each on the one before: no recursion, nothing that grows with the square."""
    p = Program()
    x = p.do("asset", "array", 1)
    for _ in range(20_000):
        x = p.do("operator.add", x, 1)
    found = row_stable(p.steps, x.id, allowed, schemas)
    assert isinstance(found, Route)
    assert len(found.steps) == 20_001
