"""A private training: batches by chance, clipped sums, noise, and the account of it."""

from __future__ import annotations

import contextlib
import hashlib
import math
import secrets
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from duetlink.base.chance.poisson import poisson_sample
from duetlink.compute.privacy import meter
from duetlink.data.codecs.element import BY_NAME
from duetlink.errors import BudgetExceeded, OperationMismatch, SettingError
from duetlink.groups.secure.participants import LEAST_MEMBERS
from duetlink.groups.secure.ranges import Range
from duetlink.learning.dp.accounting import AGAINST, Spending, most_steps, unknown_noise
from duetlink.learning.dp.as_text import as_text
from duetlink.learning.dp.clipping import CLIPPINGS, Loss
from duetlink.learning.dp.keystream import Keystream

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

TRUSTS = ("leader", "secure_sum", "none")


Share = Callable[[int, int], npt.NDArray[np.float64]]

# Steps in a standard deviation of the noise, as a power of 2: a sum of 2^29 of them is exact in float64.
_NOISE_BITS = 24

# How many rows a member can have in a batch, as a multiple of the declared size of all members' batch. So
# generous a range costs nothing in 64 bits, whose steps the noise decides.
_MOST_BATCHES = 1000


class Adder(Protocol):
    """What a training among several needs: the sum over all members. A `duetlink.group` is one."""

    @property
    def size(self) -> int: ...

    def all_reduce(
        self,
        value: Share | npt.NDArray[np.float64],
        /,
        *,
        secure: bool = False,
        limit: float | None = None,
        noise: float = 0.0,
        colluding: int | None = None,
    ) -> Any:
        """The sum of what each member gives, of one shape and dtype. A function is called with (rank, size)
        once it is settled who takes part, since the share of the noise depends on that.

        With `secure`, members see nothing but the sum, to which they have added discrete Gaussian noise of
        that standard deviation, `colluding` of them not counted; no number is beyond `limit`.
        """


@contextlib.contextmanager
def _own_chance() -> Iterator[None]:
    """Within, torch draws numbers that nobody can foretell, as for a dropout; then it goes on as before.

    A sample's dropout follows from its place in the batch. If it were known beforehand, one row more would
    change the gradients of all rows behind it in a way that is known.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(secrets.randbits(64))
        yield


class DpSgd:
    """Trains `model` so that what it has learnt tells little of any one row.

    Each step draws a Poisson sample of the rows, clips every sample's gradient to a norm of `clip`, adds
    Gaussian noise with a standard deviation of `noise * clip` to each coordinate of the sum, divides by
    `batch`, and lets the optimizer step with that (Abadi et al., "Deep Learning with Differential Privacy",
    2016). A batch that happens to be empty is a step as well, of noise alone.

    `rows` and `batch` are declared, not counted: the true number of rows is private where neighbouring tables
    differ by one row. Their ratio is the probability of a row to be in a batch; the divisor is `batch`, a
    constant that was there before the data. Dividing by the realised batch, or by the rate times the true
    number of rows, would leak more than the account says.

    What the training promises holds for the parameters only. A loss that is printed, or an accuracy on the
    same rows, is a release of its own.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss: Loss,
        *,
        rows: int,
        batch: int,
        clip: float,
        noise: float,
        clipping: str = "bookkeeping",
        group: Adder | ProcessGroup | None = None,
        trust: str = "secure_sum",
        colluding: int | None = None,
        budget: tuple[float, float] | None = None,
    ) -> None:
        """
        Args:
            model: its parameters that require a gradient are trained. Layers of batch statistics are refused.
            optimizer: of the same parameters; any of torch's.
            loss: of (outputs, targets), one number for each sample: shape (B,), such as
                `nn.CrossEntropyLoss(reduction="none")`.
            rows: about how many rows all members have together; a public figure.
            batch: rows in a batch, on average.
            clip: the largest norm of one sample's gradient.
            noise: standard deviation of the noise on the sum, in units of `clip`. 0 is training without
                privacy, whose epsilon is infinite.
            clipping: "bookkeeping" never makes a sample's gradient; "per_sample" makes each with torch.func,
                for any model; "opacus" takes Opacus' hooks. All three give the same sum.
            group: whose members train one model together, each on rows of its own. Every member makes the
                same calls with the same settings; only sums over all members are used. Or a process group of
                torch.distributed, such as `torch.distributed.group.WORLD`.
            trust: who may see what. "secure_sum": members see nothing but the sum over all of them, so each
                adds a share of the noise; of three members or more. "leader": rank 0 adds all of it, and
                members see each other's sums without. "none": each adds all of it to what it gives away, so
                the sum has more noise than the account needs.
            colluding: how many members may put together what they have and take their own shares of the
                noise off the sum, with "secure_sum"; 1 unless it is given.
            budget: (epsilon, delta) that the training may cost, by the epsilon that `epsilon` tells by
                default; a step that would pass it is refused.

        Raises:
            SettingError: a value that cannot be, or a model whose samples cannot be told apart.
            MissingLibrary: clipping="opacus" without Opacus.
        """
        if not 1 <= batch <= rows < math.inf:
            raise SettingError(f"batch is {batch} of {rows} rows: it is at least 1 and at most all rows")
        if not (noise >= 0.0 and math.isfinite(noise)):
            raise SettingError(f"noise is {noise!r}: it is a finite number, 0 or above")
        if clipping not in CLIPPINGS:
            raise SettingError(f"clipping is {clipping!r}: there are {', '.join(CLIPPINGS)}")
        if trust not in TRUSTS:
            raise SettingError(f"trust is {trust!r}: there are {', '.join(TRUSTS)}")
        if group is not None and meter.is_counting():
            raise SettingError(
                "a function that an owner runs has no peers, so a group would take the noise away and add "
                "nobody: leave out group="
            )
        adder = _adder(group, trust)
        size = 1 if adder is None else adder.size
        if trust != "secure_sum" and getattr(adder, "on_loss", "raise") != "raise":
            raise SettingError(
                "a group that tries a sum again when a member is lost shows one sum with two noises: open it "
                'with on_loss="raise"'
            )
        if adder is not None and trust == "secure_sum" and size < LEAST_MEMBERS:
            raise SettingError(
                f'trust="secure_sum" of {size} members hides nothing: each takes its own part off the sum. '
                'There are trust="leader" and trust="none"'
            )
        if colluding is None:
            colluding = int(adder is not None and trust == "secure_sum")
        if colluding and trust != "secure_sum":
            raise SettingError(
                f'colluding is {colluding}: with trust="{trust}" nobody adds a share of the noise'
            )
        if not 0 <= colluding < size:
            raise SettingError(f"colluding is {colluding} of {size} members: at least one has to be honest")
        self._clipping, self._way = CLIPPINGS[clipping](model, loss, clip), clipping
        self._optimizer = optimizer
        held = {id(p) for settings in optimizer.param_groups for p in settings["params"]}
        missing = [name for name, p in self._clipping.parameters.items() if id(p) not in held]
        if missing:
            raise SettingError(
                f"the optimizer does not hold {', '.join(missing)}; make it from model.parameters()"
            )
        self._check_optimizer()
        if isinstance(optimizer, torch.optim.LBFGS):
            raise SettingError(
                "LBFGS asks for the loss several times in a step, and each would cost: take another optimizer"
            )
        if budget is not None and not (isinstance(budget, tuple | list) and len(budget) == 2):
            raise SettingError(f"budget is {budget!r}: it is (epsilon, delta), such as (2.0, 1e-5)")
        self._group, self._trust, self._colluding = adder, trust, colluding
        self._noise, self._clip, self._batch = noise, clip, batch
        self._rows, self._rate = rows, batch / rows
        self._keystream = Keystream()
        self._alike = _said((rows, batch, clip, noise, trust))
        self._steps = 0
        self._unknown = dict.fromkeys(AGAINST, math.inf if adder is not None else 1.0)
        if adder is not None:
            self._note_members(size)
        self._budget = budget
        self._most_steps()
        self.steps_per_epoch = round(rows / batch)
        meter.add(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Raises SettingError: the steps of a copy would be counted nowhere."""
        raise SettingError(
            "a private training is not copied or pickled: make another DpSgd, whose steps count"
        )

    def __repr__(self) -> str:
        whom = self.against
        if self._group is None:
            whom = "everybody"
        elif whom == "members":
            whom = f"members, {max(self._colluding, 1)} of them together, and everybody else"
        return f"<DpSgd: {self._steps} steps; its epsilon holds against {whom}>"

    @property
    def against(self) -> str:
        """Against whom the account is unless it is asked for another: "members", or "everybody else" where
        trust="leader" says that members may see sums without noise.
        """
        return "everybody else" if self._trust == "leader" else "members"

    @property
    def spending(self) -> Spending:
        """What the steps so far have cost, all members' rows included, against whom `against` says."""
        return self._spent(self.against)

    def epsilon(self, delta: float, accountant: str = "pld", *, against: str | None = None) -> float:
        """What the steps so far have cost, see `Spending.epsilon`.

        Args:
            delta: between 0 and 1, well below 1 over the rows.
            accountant: "pld" or "rdp".
            against: "members" of the group, as many as `colluding` together and one at least, who know their
                own part of the noise; or "everybody else", who sees the model alone. With trust="leader" it
                is infinite against members. By default as `against` says. Alone there is no difference.

        Raises:
            SettingError: there is no such delta, accountant, or `against`.
            MissingLibrary: dp-accounting is not installed.
        """
        if against is not None and against not in AGAINST:
            raise SettingError(f"against is {against!r}: there are {', '.join(AGAINST)}")
        return self._spent(against or self.against).epsilon(delta, accountant)

    def _spent(self, against: str) -> Spending:
        return Spending(self._rate, self._noise * self._unknown[against], self._steps)

    def _most_steps(self) -> float:
        """All that the budget allows, were they made with the noise that the account is of."""
        return (
            math.inf if self._budget is None else most_steps(*self._budget, self._rate, self.spending.noise)
        )

    def _note_members(self, count: int) -> None:
        """Of all numbers of members that there were, the account is of the one with the least noise."""
        if self._trust == "secure_sum":  # of fewer none is made
            count = max(count, LEAST_MEMBERS, self._colluding + 1)
        for against, least in self._unknown.items():
            found = unknown_noise(against, self._trust, count, self._colluding)
            self._unknown[against] = min(least, found)

    def batches(self, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
        """One epoch of `rows / batch` batches from this member's tensors, whose first dimension counts rows.

        A batch may be empty: it is a step all the same, or else what is trained would tell that it was.

        Raises:
            SettingError: the tensors have different numbers of rows, or are none.
        """
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise SettingError(f"a {type(tensor).__name__} is no tensor: torch.as_tensor makes one")
        lengths = {len(tensor) for tensor in tensors}
        if len(lengths) != 1:
            raise SettingError(f"the tensors have {sorted(lengths)} rows: each needs one entry for every row")
        rows = lengths.pop()
        for _ in range(self.steps_per_epoch):
            drawn = torch.from_numpy(poisson_sample(rows, self._rate, self._keystream.uniform))
            yield tuple(tensor[drawn] for tensor in tensors)

    def step(self, *batch: Tensor) -> None:
        """Learn from one batch: the model's inputs, and last the targets.

        Raises:
            SettingError: the loss gives other than one number for each sample, or the model mixes them.
            BudgetExceeded: the step would cost more than the budget; nothing was learnt.
            PeerLost: a member is gone; nothing was learnt in this step, and it was counted.
            OperationMismatch: another member trains with other settings; nothing was learnt, at any.
        """
        if self._steps >= self._most_steps():
            raise BudgetExceeded(
                f"{self._steps} steps are all that a budget of (epsilon, delta) = {self._budget} allows; the "
                "model stays as it is"
            )
        *inputs, targets = batch
        if not inputs:
            raise SettingError("a batch has one tensor: it has the model's inputs, and last the targets")
        self._check_optimizer()
        self._steps += 1  # before anything is released: a step that fails half-way has cost what it costs
        clipping = self._clipping
        with _own_chance():
            gradients = clipping.of((tuple(inputs), targets)) if len(targets) else clipping.zeros()
        total = torch.cat([gradient.detach().reshape(-1) for gradient in gradients.values()])
        if self._group is None:
            total = self._noised(total).to(total.dtype)
        elif self._trust == "secure_sum":
            total = self._secure_sum(self._group, total)
        else:
            mine = total

            def make(rank: int, size: int) -> npt.NDArray[np.float64]:
                self._note_members(size)
                return np.concatenate((self._noised(mine, rank, size).numpy(), self._alike))

            found = np.array(self._group.all_reduce(make))
            _check_alike(found[-len(self._alike) :])
            total = torch.from_numpy(found[: len(mine)]).to(mine.dtype)
        total /= self._batch
        at = 0
        for name, parameter in self._clipping.parameters.items():
            gradient = total[at : at + parameter.numel()].view_as(parameter)
            parameter.grad = gradient.to(parameter.dtype, copy=True)
            at += gradients[name].numel()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)

    def _check_optimizer(self) -> None:
        """Raise SettingError where the optimizer holds what is not clipped: a gradient of it would be of rows
        as they are, and what it becomes would change the gradients of all others.
        """
        trained = {id(p) for p in self._clipping.parameters.values()}
        held = [p for settings in self._optimizer.param_groups for p in settings["params"]]
        others = [tuple(p.shape) for p in held if id(p) not in trained and p.requires_grad]
        if others:
            raise SettingError(
                f"the optimizer holds {len(others)} parameters that are none of the model's, of shapes "
                f"{others[:5]}: make it from model.parameters()"
            )

    def fit(self, *tensors: Tensor, epochs: int = 1) -> None:
        """Make `epochs` epochs of steps on this member's rows: the model's inputs, and last the targets.

        Raises:
            SettingError: there is no such number of epochs, or as `batches` and `step`, as all errors.
        """
        if not (isinstance(epochs, int) and epochs >= 1):
            raise SettingError(f"epochs is {epochs!r}: it is a whole number from 1 on")
        for _ in range(epochs):
            for batch in self.batches(*tensors):
                self.step(*batch)

    def as_function(self, epochs: int) -> tuple[str, Tensor]:
        """This training as the text of a function `train(x, y, weights)`, and its weights: for
        `duet.remote`.

        Raises:
            SettingError: a part of it cannot be written down; the message says which.
        """
        if self._group is not None:
            raise SettingError("a training with a group is at its members; send one without")
        numbers = {
            "rows": int(self._rows),
            "batch": int(self._batch),
            "clip": float(self._clip),
            "noise": float(self._noise),
            "clipping": self._way,
        }
        return as_text(self._clipping.model, self._optimizer, self._clipping.loss, numbers, epochs)

    def _secure_sum(self, group: Adder, mine: Tensor) -> Tensor:
        """The sum over all members with noise, of which nobody sees a part.

        Each coordinate of a member's sum is rounded to a step, so that one row more or less may move it by a
        step more than its gradient: the norm grows by up to the root of their number, in steps, and the noise
        with it. A step is coarsest where a single member adds all of the noise; the noise that comes on top
        may double it.
        """
        limit = self._clip * self._batch * _MOST_BATCHES
        noise = self._noise * self._clip
        if noise:
            coarsest = Range.of(BY_NAME["float64"], group.size, limit, noise, 1).step
            noise += self._noise * math.sqrt(len(mine)) * 2.0 * coarsest
        self._note_members(group.size)
        try:
            found = group.all_reduce(
                mine.double().numpy(), secure=True, limit=limit, noise=noise, colluding=self._colluding
            )
        finally:  # it is tried again where a member was lost, and the others may have it where this one fails
            self._note_members(group.size)
        return torch.from_numpy(np.array(found)).to(mine.dtype)

    def _noised(self, total: Tensor, *place: int) -> Tensor:
        """A member's sum with its share of the noise, float64; not for a secure sum. `place`: rank and size.

        Both are rounded to whole steps before they are added, which is exact: the last bits of other floating
        point numbers would tell which sum the noise was added to.
        """
        step = self._noise_step
        noise = self._own_noise(len(total), *place)
        return torch.round(total.double() / step) * step + noise if step else total + noise

    def _own_noise(self, count: int, rank: int = 0, size: int = 1) -> Tensor:
        """The share of a member of that rank in a sum of so many, in whole steps, float64.

        Rounding moves each coordinate of a sum by a step at most, so that one row may change the norm by the
        root of their number more, in steps. The noise grows with it: for a million coordinates and a noise of
        1 by 0.006 %.
        """
        step = self._noise_step
        if not step or (self._group is not None and self._trust == "leader" and rank != 0):
            return torch.zeros(count, dtype=torch.float64)
        scale = self._noise * (self._clip + math.sqrt(count) * step)
        return torch.round(torch.from_numpy(self._keystream.normal(count) * scale) / step) * step

    @property
    def _noise_step(self) -> float:
        """What noise and sums are rounded to; 0 without noise."""
        scale = self._noise * self._clip
        return 2.0 ** (math.floor(math.log2(scale)) - _NOISE_BITS) if scale else 0.0


def _adder(group: Adder | ProcessGroup | None, trust: str) -> Adder | None:
    """What adds up. Raises SettingError for a secure sum of torch's ranks."""
    if not (torch.distributed.is_available() and isinstance(group, torch.distributed.ProcessGroup)):
        return cast("Adder | None", group)
    if trust == "secure_sum":
        raise SettingError(
            'torch.distributed makes no secure sums: there are trust="leader" and trust="none"'
        )
    from duetlink.learning.dp.ranks import Ranks

    return Ranks(group)


def _said(settings: tuple[object, ...]) -> npt.NDArray[np.float64]:
    """What goes beside a sum so that all members see whether they have the same settings: 1, and a number of
    20 bits made of these, and its square. All are exact in float64, also of a thousand members.
    """
    digest = int.from_bytes(hashlib.sha256(repr(settings).encode()).digest()[:4], "big") >> 12
    return np.array([1.0, digest, digest**2], np.float64)


def _check_alike(sums: npt.NDArray[np.float64]) -> None:
    """Raises OperationMismatch unless all have said the same number: by Cauchy and Schwarz, exactly then the
    square of the sum is the number of members times the sum of squares.
    """
    members, total, squares = map(int, sums)
    if total * total != members * squares:
        raise OperationMismatch(
            "the members do not train alike, so that the account would be wrong for some: rows, batch, clip, "
            "noise and trust are to be the same at all of them"
        )
