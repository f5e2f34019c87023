"""The privacy ledger: each asset's budget and what was spent of it, in a file on the owner's disk.

A charge is on the disk before `charge` returns, and the release comes after that. So a crash between the two
loses budget and never privacy; no charge is ever refunded. A damaged ledger accepts no charge until its owner
repairs it, because charges may be missing from it.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from duetlink.base.journal.head import Head
from duetlink.base.journal.journal import Journal
from duetlink.base.journal.lock import JournalHeld
from duetlink.compute.privacy.account import (
    BUDGET,
    CHARGE,
    REPAIR,
    Accounts,
    Amount,
    Posting,
    amount,
    written,
)
from duetlink.errors import AuditBroken, AuditUnavailable, BudgetExceeded, DuetError, SettingError

_MAX_TEXT = 500  # characters of `what`
_MAX_NAME = 1_000  # characters of an asset's name
_MAX_LINE_BYTES = 64 * 1024  # more than the longest texts take with every character escaped
_LOCK_TIMEOUT_S = 30.0


def utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass(slots=True)
class _State:
    """The accounts as read from the file, the end of the file, and the identity of that file."""

    accounts: Accounts = field(default_factory=Accounts)
    end: Head = field(default_factory=Head)
    file: tuple[int, ...] = ()


class Ledger:
    """One ledger of one user. Several threads, kernels and duets may charge it at once, in order of arrival.

    The directory also holds the ledger's head, a lock file, and damaged ledgers that were set aside. Only
    their owner may read them. Each method blocks until it has the lock, and raises

        AuditUnavailable: the ledger cannot be locked, read or written.
        AuditBroken: it is damaged; the message says where.
    """

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], datetime.datetime] = utc_now,
        lock_timeout_s: float = _LOCK_TIMEOUT_S,
    ) -> None:
        self.path = path
        self._now = now
        self._journal = Journal(path, max_line_bytes=_MAX_LINE_BYTES, lock_timeout_s=lock_timeout_s)
        self._state = _State()  # only to be used under the lock

    def set_budget(self, asset: str, epsilon_total: Amount, why: str = "") -> None:
        """Set the total budget of `asset`, which includes what has been spent of it already.

        Raises:
            SettingError: `epsilon_total` is not a valid amount, or `asset` not a valid name.
        """
        total = amount(epsilon_total)
        with self._current_state() as state:
            self._post(state, BUDGET, asset, total, why)

    def charge(self, asset: str, epsilon: Amount, what: str) -> None:
        """Spend `epsilon` of the budget of `asset` on `what`. The charge is on the disk when this returns.

        After AuditUnavailable the charge may or may not be on the disk, so nothing may be released.

        Raises:
            BudgetExceeded: less is left, or the asset has no budget. Nothing was charged.
            SettingError: `epsilon` is not an amount above 0, or `asset` not a valid name.
        """
        cost = amount(epsilon)
        if not cost:
            raise SettingError("a charge must be above 0")
        with self._current_state() as state:
            left, total = state.accounts.left(asset), state.accounts.totals.get(asset)
            if total is None:
                raise BudgetExceeded(f"{asset} has no privacy budget: its owner has to set one")
            if cost > left:
                raise BudgetExceeded(
                    f"the release asks for epsilon {written(cost)}, and {written(left)} is left of the "
                    f"{written(total)} for {asset}; ask for less, or ask its owner for a larger budget"
                )
            self._post(state, CHARGE, asset, cost, what)

    def total(self, asset: str) -> Decimal | None:
        """Return the budget; None if the asset has none, so that nothing can be charged."""
        with self._current_state() as state:
            return state.accounts.totals.get(asset)

    def spent(self, asset: str) -> Decimal:
        with self._current_state() as state:
            return state.accounts.spent.get(asset, Decimal(0))

    def left(self, asset: str) -> Decimal:
        """Return the epsilon that may still be spent; 0 for an asset without a budget."""
        with self._current_state() as state:
            return state.accounts.left(asset)

    def history(self, asset: str) -> tuple[Posting, ...]:
        """Return the asset's budgets, charges and repairs in the order of the file."""
        found: list[Posting] = []
        with self._locked():
            self._read(found.append)
        return tuple(posting for posting in found if posting.asset in (asset, ""))

    def repair(self, why: str) -> str:
        """Make a damaged ledger usable again. Returns a description of the damage, for people.

        The lines before the damage stay, and the damaged file is kept under another name. **Every budget is
        closed**, since charges may be missing: set the budgets again that should be open. An undamaged
        ledger is not changed.
        """
        with self._locked():
            try:
                self._read(lambda posting: None)
                return f"the privacy ledger {self.path} is undamaged"
            except AuditBroken as error:
                found = str(error)
            self._state = _State()
            asides = (self.path.with_name(f"{self.path.name}.damaged-{n}") for n in itertools.count())
            aside = next(path for path in asides if not path.exists())
            fields = self._fields(REPAIR, "", Decimal(0), why)
            self._journal.start_over(fields, aside, Posting.from_fields)
            return f"{found}. It is kept as {aside.name}, and all budgets are closed"

    # -- under the lock --------------------------------------------------------------------------------------

    def _post(self, state: _State, kind: str, asset: str, epsilon: Decimal, what: str) -> None:
        if not isinstance(asset, str) or not 0 < len(asset) <= _MAX_NAME:
            raise SettingError(f"an asset's name must have 1 to {_MAX_NAME:,} characters")
        fields = self._fields(kind, asset, epsilon, what)
        self._state = _State()  # if the write fails, the file must be read again
        end = self._journal.append(state.end, fields)
        state.accounts.take(Posting(end.number, fields["when"], kind, asset, epsilon, fields["what"]))
        self._state = _State(state.accounts, end, self._journal.identity())

    def _fields(self, kind: str, asset: str, epsilon: Decimal, what: str) -> dict[str, str]:
        when = self._now().astimezone(datetime.UTC).isoformat(timespec="microseconds")
        cut = what if len(what) <= _MAX_TEXT else what[: _MAX_TEXT - 1] + "…"
        return {"when": when, "kind": kind, "asset": asset, "epsilon": written(epsilon), "what": cut}

    def _read(self, take: Callable[[Posting], object]) -> Head:
        try:
            return self._journal.walk(lambda fields: take(Posting.from_fields(fields)))
        except AuditBroken as error:
            raise AuditBroken(
                f"the privacy ledger {self.path} is damaged: {error}. Nothing private is released until its "
                "owner calls repair(), which closes all budgets"
            ) from None

    @contextlib.contextmanager
    def _current_state(self) -> Iterator[_State]:
        """Hold the lock and give the current state, reading the file only if it has changed meanwhile."""
        with self._locked():
            state = self._state
            if not state.file or state.file != self._journal.identity():
                state = _State()
                state.end = self._read(state.accounts.take)
                state.file = self._journal.identity()
                self._state = state
            yield state

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            with self._journal.held():
                yield
        except JournalHeld:
            raise AuditUnavailable(
                f"the privacy ledger {self.path} is held by another process that does not release its lock; "
                "nothing private is released until it does"
            ) from None
        except DuetError:  # some are OSErrors too
            raise
        except OSError as error:
            raise AuditUnavailable(
                f"the privacy ledger {self.path} cannot be used ({error.strerror or error}); nothing private "
                "is released until it can: make room, or give access"
            ) from error
