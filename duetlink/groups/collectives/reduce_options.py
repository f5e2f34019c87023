"""The options of a sum, apart from its value: made once in `group.all_reduce`, and passed down."""

from __future__ import annotations

from dataclasses import dataclass

from duetlink.errors import SettingError

SUMS = ("sum", "mean")  # these results show less of each single value than min, max, …


@dataclass(frozen=True, slots=True)
class ReduceOptions:
    """The arguments of `group.all_reduce` that say how values are combined; its docstring explains them.

    Raises:
        SettingError: an argument is only for secure sums, or only for sums that are not secure.
    """

    op: str = "sum"
    in_place: bool = False
    algorithm: str | None = None
    codec: str | None = None
    secure: bool = False
    limit: float | None = None
    noise: float = 0.0
    colluding: int | None = None
    accountable: bool = False

    def __post_init__(self) -> None:
        if self.secure:
            if self.in_place or self.algorithm is not None or self.codec is not None:
                raise SettingError("in_place, algorithm and codec are for sums that are not secure")
            return
        given = {
            "limit": self.limit is not None,
            "noise": self.noise,
            "colluding": self.colluding is not None,
            "accountable": self.accountable,
        }
        if any(given.values()):
            named = ", ".join(name for name, is_given in given.items() if is_given)
            raise SettingError(f"{named} is for secure sums: say secure=True")

    @property
    def is_sum(self) -> bool:
        return self.op in SUMS
