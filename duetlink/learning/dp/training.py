"""A private training: Poisson samples as batches, clipped sums, noise, and the account."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import secrets
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from duetlink.base.chance.poisson import poisson_samples
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

# A standard deviation of the noise is 2^24 to 2^25 steps; sums up to 2^28 of it are exact in float64.
_NOISE_BITS = 24

# Batches are drawn several at a time, of about as many rows together: 128 KiB.
_DRAWN_ROWS = 2**14

# A member can have this multiple of the declared batch in one batch. Such a wide range costs nothing in 64
# bits, since the noise decides the size of a step.
_MOST_BATCHES = 1000


class Adder(Protocol):
    """The sum over all members, as a training in a group needs it. A `duetlink.group` is one."""

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
        """Return the sum of the members' values, of one shape and dtype.

        A function as `value` is called with (rank, size) when the members of the sum are known, since the
        share of the noise depends on them.

        With `secure`, members see only the sum. They have added discrete Gaussian noise to it, with a
        standard deviation of `noise` even without the shares of `colluding` members. No number may be beyond
        `limit`.
        """


@contextlib.contextmanager
def _own_chance() -> Iterator[None]:
    """Let torch draw unpredictable numbers, for example for a dropout; its own random state continues
    afterwards.

    A sample's dropout depends on its position in the batch. If it were predictable, one more row would change
    the gradients of all rows after it in a known way.
    """
    state = torch.default_generator.get_state()
    torch.default_generator.manual_seed(secrets.randbits(64))
    try:
        yield
    finally:
        torch.default_generator.set_state(state)


class DpSgd:
    """Trains `model` with differential privacy: the weights reveal little about any single row.

    Each step draws a Poisson sample of the rows, clips every sample's gradient to a norm of `clip`, adds
    Gaussian noise with a standard deviation of `noise * clip` to each coordinate of the sum, divides by
    `batch`, and gives the result to the optimizer (Abadi et al., "Deep Learning with Differential Privacy",
    2016). An empty batch is a step as well, of noise alone.

    `rows` and `batch` are declared, not counted: the true number of rows is private if neighbouring tables
    differ by one row. Their ratio is the probability that a row is in a batch. The divisor is `batch`, a
    constant that does not depend on the data. Dividing by the realised batch, or by the rate times the true
    number of rows, would leak more than the account says.

    The promise covers only the parameters. A loss that is printed, or an accuracy on the same rows, is
    another release.
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
        """Check the model, and start an account.

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
            clipping: "bookkeeping" makes few samples' gradients at a time; "per_sample" makes all with
                torch.func, for any model; "opacus" uses the hooks of Opacus. All three give the same sum.
            group: its members train one model together, each on its own rows. Every member makes the same
                calls with the same settings; only sums over all members are used. Or a process group of
                torch.distributed, such as `torch.distributed.group.WORLD`.
            trust: who may see what. "secure_sum": members see only the sum over all of them, so each adds a
                share of the noise; for three members or more. "leader": rank 0 adds all of it, and members
                see each other's sums without noise. "none": each adds all of it to its own sum, so the total
                has more noise than the account needs.
            colluding: the number of members that may share what they know, and subtract their shares of the
                noise from the sum, with "secure_sum"; by default 1.
            budget: (epsilon, delta) that the training may cost, by the default of `epsilon`; a step beyond it
                is refused.

        Raises:
            SettingError: a value is out of range, or the model mixes samples.
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
                "a function that runs at an owner has no peers, so a group would only reduce the noise: "
                "leave out group="
            )
        adder = _adder(group, trust)
        size = 1 if adder is None else adder.size
        if trust != "secure_sum" and getattr(adder, "on_loss", "raise") != "raise":
            raise SettingError(
                "a group that repeats a sum after a loss shows the same sum with two different noises: open "
                'it with on_loss="raise"'
            )
        if adder is not None and trust == "secure_sum" and size < LEAST_MEMBERS:
            raise SettingError(
                f'trust="secure_sum" of {size} members hides nothing: each can subtract its own part. '
                'There are trust="leader" and trust="none"'
            )
        if colluding is None:
            colluding = int(adder is not None and trust == "secure_sum")
        if colluding and trust != "secure_sum":
            raise SettingError(
                f'colluding is {colluding}: with trust="{trust}" no member adds a share of the noise'
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
        self._settings_sums = _settings_digest((rows, batch, clip, noise, trust))
        self._steps = 0
        self._unknown = dict.fromkeys(AGAINST, math.inf if adder is not None else 1.0)
        if adder is not None:
            self._note_members(size)
        self._budget = budget
        self._most_steps()
        self.steps_per_epoch = round(rows / batch)
        meter.add(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Raises SettingError: the steps of a copy would not be counted."""
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
        """The observer that the account is about by default: "members", or "everybody else".

        It is "everybody else" with trust="leader", where members see sums without noise.
        """
        return "everybody else" if self._trust == "leader" else "members"

    @property
    def spending(self) -> Spending:
        """The cost of the steps so far, for the rows of all members, against the observer in `against`."""
        return self._spent(self.against)

    def epsilon(self, delta: float, accountant: str = "pld", *, against: str | None = None) -> float:
        """Return the epsilon of the steps so far; see `Spending.epsilon`.

        Args:
            delta: between 0 and 1, well below 1 over the rows.
            accountant: "pld" or "rdp".
            against: "members" of the group (`colluding` of them together, at least one), which know their own
                part of the noise; or "everybody else", who sees only the model. With trust="leader" it is
                infinite against members. By default `against`. Without a group both are equal.

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
        """Return the number of steps that the budget allows at the account's noise; infinite without a
        budget.
        """
        return (
            math.inf if self._budget is None else most_steps(*self._budget, self._rate, self.spending.noise)
        )

    def _note_members(self, count: int) -> None:
        """Lower the account's noise if a sum of `count` members has less than all sums before."""
        if self._trust == "secure_sum":  # smaller secure sums are refused
            count = max(count, LEAST_MEMBERS, self._colluding + 1)
        for against, least in self._unknown.items():
            found = unknown_noise(against, self._trust, count, self._colluding)
            self._unknown[against] = min(least, found)

    def batches(self, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
        """Yield one epoch of `rows / batch` batches from this member's tensors, whose first dimension counts
        rows.

        Pass an empty batch to `step` as well: skipping it would reveal that it was empty.

        Raises:
            SettingError: an argument is not a tensor, or the tensors have different numbers of rows.
        """
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise SettingError(f"a {type(tensor).__name__} is no tensor: torch.as_tensor makes one")
        lengths = {len(tensor) for tensor in tensors}
        if len(lengths) != 1:
            raise SettingError(f"the tensors have {sorted(lengths)} rows: each needs one entry for every row")
        rows, left = lengths.pop(), self.steps_per_epoch
        while left:
            count = min(left, max(1, _DRAWN_ROWS // self._batch))
            process = os.getpid()
            for drawn in map(
                torch.from_numpy, poisson_samples(rows, self._rate, count, self._keystream.uniform)
            ):
                if os.getpid() != process:  # a fork has its parent's batches, and draws others
                    break
                left -= 1
                yield tuple(tensor.index_select(0, drawn) for tensor in tensors)

    def step(self, *batch: Tensor) -> None:
        """Train on one batch of `batches`: the model's inputs, and last the targets.

        Raises:
            SettingError: the loss does not give one number for each sample, or the model mixes samples.
            BudgetExceeded: the step would cost more than the budget; the model is unchanged.
            PeerLost: a member is gone; the model is unchanged, and the step was counted.
            OperationMismatch: another member trains with other settings; no member's model has changed.
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
        self._steps += 1  # before anything is released: a step that fails half-way has its full cost
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
                return np.concatenate((self._noised(mine, rank, size).numpy(), self._settings_sums))

            found = np.array(self._group.all_reduce(make))
            _check_alike(found[-len(self._settings_sums) :])
            total = torch.from_numpy(found[: len(mine)]).to(mine.dtype)
        total /= self._batch
        parameters = self._clipping.parameters.values()
        for parameter, gradient in zip(parameters, total.split([p.numel() for p in parameters]), strict=True):
            parameter.grad = gradient.view_as(parameter).to(parameter.dtype)
        self._optimizer.step()
        for parameter in parameters:
            parameter.grad = None

    def _check_optimizer(self) -> None:
        """Raise SettingError if the optimizer holds parameters that are not clipped.

        Their gradients would come from raw rows, and their new values would change all other gradients.
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
            SettingError: epochs is not a whole number from 1 on, or as `batches` and `step`, like all other
                errors.
        """
        if not (isinstance(epochs, int) and epochs >= 1):
            raise SettingError(f"epochs is {epochs!r}: it is a whole number from 1 on")
        for _ in range(epochs):
            for batch in self.batches(*tensors):
                self.step(*batch)

    def as_function(self, epochs: int) -> tuple[str, Tensor]:
        """Return this training as the text of a function `train(x, y, weights)`, and its weights: for
        `duet.remote`.

        Raises:
            SettingError: a part of it cannot be written down; the message names it.
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
        """Return the noisy sum over all members; no member sees a part of it.

        Each coordinate of a member's sum is rounded to a step, so one row may move it by one step more than
        its gradient does: the norm grows by up to the root of the number of coordinates, in steps, and the
        noise with it. A step is coarsest when a single member adds all of the noise; the added noise may
        double it.
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
        finally:  # after a loss it is retried; the others may have the sum although this member failed
            self._note_members(group.size)
        return torch.from_numpy(np.array(found)).to(mine.dtype)

    def _noised(self, total: Tensor, *place: int) -> Tensor:
        """Return a member's sum with its share of the noise, float64; not for a secure sum. `place`: rank and
        size.

        Both are rounded to whole steps before they are added, which is exact: the last bits of unrounded
        numbers would reveal which sum the noise was added to.
        """
        step = self._noise_step
        noise = self._own_noise(len(total), *place)
        return (total.double() / step).round_().mul_(step).add_(noise) if step else total + noise

    def _own_noise(self, count: int, rank: int = 0, size: int = 1) -> Tensor:
        """Return this member's share of the noise, in whole steps, float64; zeros if the leader adds all of
        it.

        Rounding moves each coordinate of a sum by at most one step, so one row may change the norm by the
        root of the number of coordinates more, in steps. The noise grows with it: for a million coordinates
        and a noise of 1 by 0.006 %.
        """
        step = self._noise_step
        if not step or (self._group is not None and self._trust == "leader" and rank != 0):
            return torch.zeros(count, dtype=torch.float64)
        scale = self._noise * (self._clip + math.sqrt(count) * step)
        return torch.from_numpy(self._keystream.normal(count)).mul_(scale / step).round_().mul_(step)

    @property
    def _noise_step(self) -> float:
        """The step to which noise and sums are rounded; 0 without noise."""
        scale = self._noise * self._clip
        return 2.0 ** (math.floor(math.log2(scale)) - _NOISE_BITS) if scale else 0.0


def _adder(group: Adder | ProcessGroup | None, trust: str) -> Adder | None:
    """Return the object that sums over the members. Raises SettingError for a secure sum of torch's ranks."""
    if not (torch.distributed.is_available() and isinstance(group, torch.distributed.ProcessGroup)):
        return cast("Adder | None", group)
    if trust == "secure_sum":
        raise SettingError(
            'torch.distributed makes no secure sums: there are trust="leader" and trust="none"'
        )
    from duetlink.learning.dp.ranks import Ranks

    return Ranks(group)


def _settings_digest(settings: tuple[object, ...]) -> npt.NDArray[np.float64]:
    """Return three numbers whose sums show whether all members have the same settings: 1, h and h squared.

    h is a 20-bit hash of the settings. The sums are exact in float64 for up to a thousand members.
    """
    digest = int.from_bytes(hashlib.sha256(repr(settings).encode()).digest()[:4], "big") >> 12
    return np.array([1.0, digest, digest**2], np.float64)


def _check_alike(sums: npt.NDArray[np.float64]) -> None:
    """Raise OperationMismatch unless all members have the same h.

    By Cauchy and Schwarz, they have exactly if (sum of h)² equals the number of members times the sum of h².
    """
    members, total, squares = map(int, sums)
    if total * total != members * squares:
        raise OperationMismatch(
            "the members do not train alike, so that the account would be wrong for some: rows, batch, clip, "
            "noise and trust are to be the same at all of them"
        )
