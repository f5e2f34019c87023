"""The ledger adds up exactly, is never overspent, and says so when it is not as it was written."""

from __future__ import annotations

import datetime
import multiprocessing
import os
import threading
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.base.journal import files
from duetlink.base.journal.head import head_path
from duetlink.base.journal.lock import JournalLock
from duetlink.compute.privacy.account import Accounts, Posting, amount, written
from duetlink.compute.privacy.ledger import Ledger
from duetlink.compute.privacy.statistic import Statistic
from duetlink.errors import AuditBroken, AuditUnavailable, BudgetExceeded, SettingError
from tests.compute.privacy.charging import charge_often

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "privacy" / "ledger.jsonl"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger(path, now=lambda: NOW)


def test_ten_tenths_are_one(ledger: Ledger) -> None:
    ledger.set_budget("people", 1)
    for _ in range(10):
        ledger.charge("people", 0.1, "mean")
    assert ledger.spent("people") == 1
    assert ledger.left("people") == 0
    with pytest.raises(BudgetExceeded):
        ledger.charge("people", 1e-6, "mean")


def test_a_charge_over_the_budget_is_refused_with_the_figures(ledger: Ledger) -> None:
    ledger.set_budget("people", 1.5)
    ledger.charge("people", 1.25, "mean")
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge("people", 0.5, "count")
    assert str(caught.value) == (
        "the release asks for epsilon 0.5, and 0.25 is left of the 1.5 for people; ask for less, or ask its "
        "owner for a larger budget"
    )
    assert ledger.spent("people") == Decimal("1.25")
    ledger.charge("people", 0.25, "count")


def test_an_asset_without_a_budget_pays_for_nothing(ledger: Ledger) -> None:
    with pytest.raises(BudgetExceeded, match="no privacy budget"):
        ledger.charge("people", 0.1, "mean")
    assert (ledger.total("people"), ledger.left("people"), ledger.spent("people")) == (
        None,
        Decimal(0),
        Decimal(0),
    )


def test_assets_do_not_pay_for_each_other(ledger: Ledger) -> None:
    ledger.set_budget("a", 1)
    ledger.set_budget("b", 2)
    ledger.charge("a", 1, "mean")
    assert (ledger.left("a"), ledger.left("b")) == (Decimal(0), Decimal(2))


def test_a_new_budget_counts_what_was_spent(ledger: Ledger) -> None:
    ledger.set_budget("people", 1)
    ledger.charge("people", 0.75, "mean")
    ledger.set_budget("people", 2)
    assert ledger.left("people") == Decimal("1.25")
    ledger.set_budget("people", 0.5)
    assert ledger.left("people") == 0
    assert ledger.total("people") == Decimal("0.5")


def test_history_tells_what_happened(ledger: Ledger) -> None:
    ledger.set_budget("people", 1, "for the study")
    ledger.set_budget("others", 1)
    ledger.charge("people", 0.1, "mean, epsilon 0.1")
    when = "2026-01-01T12:00:00.000000+00:00"
    assert ledger.history("people") == (
        Posting(0, when, "budget", "people", Decimal(1), "for the study"),
        Posting(2, when, "charge", "people", Decimal("0.1"), "mean, epsilon 0.1"),
    )


def test_it_is_there_again_after_a_restart(ledger: Ledger, path: Path) -> None:
    ledger.set_budget("people", 1)
    ledger.charge("people", 0.25, "mean")
    assert Ledger(path).left("people") == Decimal("0.75")


def test_two_ledgers_of_one_file_see_each_other(ledger: Ledger, path: Path) -> None:
    other = Ledger(path)
    ledger.set_budget("people", 1)
    other.charge("people", 0.5, "mean")
    ledger.charge("people", 0.25, "mean")
    assert other.left("people") == ledger.left("people") == Decimal("0.25")


def test_only_its_owner_may_read_it(ledger: Ledger, path: Path) -> None:
    ledger.set_budget("people", 1)
    assert [file.stat().st_mode & 0o077 for file in (path, head_path(path), path.parent)] == [0, 0, 0]


def test_what_a_peer_said_stays_in_its_line(ledger: Ledger, path: Path) -> None:
    ledger.set_budget("people", 1)
    ledger.charge("people", 0.1, 'x"}\n{"kind":"budget" \ud800' + "y" * 10_000)
    assert len(path.read_bytes().splitlines()) == 2
    assert len(ledger.history("people")[1].what) == 500


@pytest.mark.parametrize("wrong", [0, -0.1, float("nan"), float("inf"), 1e300, True, "1", Decimal("1e-40")])
def test_what_is_no_amount_is_not_charged(ledger: Ledger, wrong: object) -> None:
    ledger.set_budget("people", 1)
    with pytest.raises(SettingError):
        ledger.charge("people", wrong, "mean")  # type: ignore[arg-type]
    assert ledger.spent("people") == 0


@pytest.mark.parametrize("name", ["", "x" * 1_001])
def test_what_is_no_name_gets_no_budget(ledger: Ledger, name: str) -> None:
    with pytest.raises(SettingError):
        ledger.set_budget(name, 1)


@given(st.lists(st.floats(1e-6, 100), max_size=30))
def test_sums_are_exact(epsilons: list[float]) -> None:
    accounts = Accounts()
    accounts.take(Posting(0, "", "budget", "a", amount(10_000), ""))
    for number, epsilon in enumerate(epsilons):
        accounts.take(Posting(number + 1, "", "charge", "a", Statistic("count", epsilon).cost, ""))
    exact = sum((Fraction(repr(epsilon)) for epsilon in epsilons), Fraction())
    assert Fraction(accounts.spent.get("a", Decimal(0))) == exact
    assert Fraction(accounts.left("a")) == 10_000 - exact


@given(st.decimals(0, 10**6, places=20))
def test_an_amount_is_read_as_it_was_written(epsilon: Decimal) -> None:
    assert amount(Decimal(written(epsilon))) == epsilon
    assert "E" not in written(epsilon)


# -- several at once ---------------------------------------------------------------------------------------


def test_eight_processes_use_a_budget_up_and_no_more(path: Path) -> None:
    """400 charges of a tenth, and a budget for 300 of them."""
    Ledger(path).set_budget("people", 30)
    context = multiprocessing.get_context()
    results: multiprocessing.Queue[int] = context.Queue()
    processes = [context.Process(target=charge_often, args=(path, 50, results)) for _ in range(8)]
    for process in processes:
        process.start()
    paid = sum(results.get(timeout=60) for _ in processes)
    for process in processes:
        process.join(timeout=60)
    assert paid == 300
    assert Ledger(path).spent("people") == 30
    assert len(Ledger(path).history("people")) == 301


def test_threads_use_a_budget_up_and_no_more(ledger: Ledger) -> None:
    ledger.set_budget("people", 5)
    paid: list[int] = []

    def charge() -> None:
        for _ in range(20):
            try:
                ledger.charge("people", 0.1, "count")
                paid.append(1)
            except BudgetExceeded:
                pass

    threads = [threading.Thread(target=charge) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paid) == 50
    assert ledger.left("people") == 0


def test_a_lock_that_is_not_let_go_is_told(path: Path) -> None:
    waiting = Ledger(path, lock_timeout_s=0.05)
    path.parent.mkdir(exist_ok=True)
    with JournalLock(path, 1.0).held(), pytest.raises(AuditUnavailable, match="held by another process"):
        waiting.charge("people", 0.1, "mean")


# -- what is damaged ---------------------------------------------------------------------------------------


@pytest.fixture
def written_ledger(path: Path) -> Ledger:
    """A budget of 1, of which 0.75 is left."""
    ledger = Ledger(path, now=lambda: NOW)
    ledger.set_budget("people", 1)
    ledger.charge("people", 0.125, "mean")
    ledger.charge("people", 0.125, "count")
    return ledger


def test_a_file_cut_off_anywhere_leaves_nothing_to_spend(written_ledger: Ledger, path: Path) -> None:
    content = path.read_bytes()
    for size_bytes in range(len(content)):
        path.write_bytes(content[:size_bytes])
        for ledger in (Ledger(path), written_ledger):
            with pytest.raises(AuditBroken, match="damaged"):
                ledger.charge("people", 0.125, "mean")
    path.write_bytes(content)
    assert Ledger(path).left("people") == Decimal("0.75")


def test_a_head_cut_off_anywhere_leaves_nothing_to_spend(written_ledger: Ledger, path: Path) -> None:
    content = head_path(path).read_bytes()
    for size_bytes in range(len(content)):
        head_path(path).write_bytes(content[:size_bytes])
        with pytest.raises(AuditBroken, match="head"):
            Ledger(path).left("people")


def test_files_that_are_gone_leave_nothing_to_spend(written_ledger: Ledger, path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(AuditBroken, match="it is missing, but its head file exists"):
        Ledger(path).left("people")
    path.write_bytes(content)
    head_path(path).unlink()
    with pytest.raises(AuditBroken, match="head"):
        Ledger(path).left("people")
    path.unlink()
    assert Ledger(path).total("people") is None  # a new ledger, which has no budget


def test_a_changed_byte_is_found_wherever_it_is(written_ledger: Ledger, path: Path) -> None:
    content = path.read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(AuditBroken):
            Ledger(path).left("people")


def test_a_line_that_is_gone_or_moved_is_found(written_ledger: Ledger, path: Path) -> None:
    first, second, third = path.read_bytes().splitlines(keepends=True)
    for lines in ((first, third), (second, third), (first, third, second), (first, second, second, third)):
        path.write_bytes(b"".join(lines))
        with pytest.raises(AuditBroken):
            Ledger(path).left("people")


def test_an_old_file_put_back_is_found(written_ledger: Ledger, path: Path) -> None:
    old = path.read_bytes()
    written_ledger.charge("people", 0.5, "mean")
    path.write_bytes(old)
    for ledger in (written_ledger, Ledger(path)):
        with pytest.raises(AuditBroken, match="its head names line 3"):
            ledger.left("people")


def test_what_others_wrote_behind_it_is_found(written_ledger: Ledger, path: Path) -> None:
    content = path.read_bytes()
    for more in (b"\n", b"{}\n", content.splitlines(keepends=True)[0], b'{"kind":"budget"'):
        path.write_bytes(content + more)
        with pytest.raises(AuditBroken, match="line 3"):
            Ledger(path).left("people")


def test_a_line_behind_the_head_counts_and_stays(written_ledger: Ledger, path: Path) -> None:
    """Its writer ended before it wrote the head."""
    head = head_path(path).read_bytes()
    written_ledger.charge("people", 0.5, "mean")
    head_path(path).write_bytes(head)
    assert Ledger(path).left("people") == Decimal("0.25")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(AuditBroken):
        Ledger(path).left("people")


def test_repair_closes_all_budgets_and_keeps_what_was_spent(written_ledger: Ledger, path: Path) -> None:
    written_ledger.set_budget("others", 1)
    content = path.read_bytes()
    path.write_bytes(content[:-3])
    words = Ledger(path).repair("disk was full")
    assert "line 3 is torn" in words
    assert (path.parent / "ledger.jsonl.damaged-0").read_bytes() == content[:-3]
    ledger = Ledger(path, now=lambda: NOW)
    assert (ledger.left("people"), ledger.spent("people")) == (Decimal(0), Decimal("0.25"))
    with pytest.raises(BudgetExceeded):
        ledger.charge("people", 0.125, "mean")
    assert ledger.history("people")[-1].what == "disk was full"
    ledger.set_budget("people", 1)
    assert ledger.left("people") == Decimal("0.75")


def test_repair_of_a_whole_ledger_changes_nothing(written_ledger: Ledger, path: Path) -> None:
    content = path.read_bytes()
    assert "is undamaged" in written_ledger.repair("to be sure")
    assert path.read_bytes() == content


def test_repair_twice_keeps_both_files(written_ledger: Ledger, path: Path) -> None:
    for number in range(2):
        head_path(path).unlink()
        Ledger(path).repair(f"repair {number}")
    assert sorted(file.name for file in path.parent.glob("*.damaged-*")) == [
        "ledger.jsonl.damaged-0",
        "ledger.jsonl.damaged-1",
    ]
    assert Ledger(path).spent("people") == Decimal("0.25")


# -- what ends in the middle -------------------------------------------------------------------------------

CALLS = ("open", "write", "fsync", "close", "ftruncate", "stat", "replace")


def _charge_and_end(path: Path, ends_at: int, results: multiprocessing.Queue[str]) -> None:
    """A charge that ends with the call of that number that `os` gets from the journal."""
    count = 0

    class Ending:
        def __getattr__(self, name: str) -> object:
            found = getattr(os, name)
            if name not in CALLS:
                return found

            def call(*arguments: object, **keywords: object) -> object:
                nonlocal count
                count += 1
                if count == ends_at:
                    os._exit(9)
                return found(*arguments, **keywords)

            return call

    ledger = Ledger(path)
    files.os = Ending()  # type: ignore[attr-defined, assignment]
    ledger.charge("people", 0.25, "mean")
    os._exit(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("first", [False, True], ids=["in use", "new"])
def test_a_process_that_ends_anywhere_gives_nothing_back(tmp_path: Path, first: bool) -> None:
    """Not one byte of budget comes back, and nothing is damaged: a process ends between its calls."""
    context = multiprocessing.get_context("fork")
    results: multiprocessing.Queue[str] = context.Queue()
    left_after: list[Decimal] = []
    for ends_at in range(1, 60):
        path = tmp_path / str(ends_at) / "ledger.jsonl"
        ledger = Ledger(path)
        ledger.set_budget("people", 1)
        if not first:
            ledger.charge("people", 0.25, "mean")
        before = ledger.left("people")
        process = context.Process(target=_charge_and_end, args=(path, ends_at, results))
        process.start()
        process.join(timeout=30)
        for _ in range(2):
            left = Ledger(path).left("people")
            assert left in (before, before - Decimal("0.25"))
        left_after.append(left)
        if process.exitcode == 0:
            assert left == before - Decimal("0.25")  # it was told that it paid
            break
        assert process.exitcode == 9
        Ledger(path).charge("people", 0.25, "mean")
    else:
        raise AssertionError("it made more calls than were tried")
    assert len(left_after) > 8
    assert left_after == sorted(left_after, reverse=True)


@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.99])
def test_a_full_disk_charges_nothing(
    written_ledger: Ledger, path: Path, part: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = path.read_bytes()
    real = os.write
    calls = 0

    def write(fd: int, data: memoryview) -> int:
        nonlocal calls
        calls += 1
        if calls == 2 or not part:
            raise OSError(28, "No space left on device")
        return real(fd, data[: int(len(data) * part)])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(AuditUnavailable, match="No space left"):
            written_ledger.charge("people", 0.5, "mean")
    assert path.read_bytes() == content
    assert written_ledger.left("people") == Decimal("0.75")


def test_what_may_not_be_on_the_disk_counts(
    written_ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(AuditUnavailable):
            written_ledger.charge("people", 0.5, "mean")
    assert written_ledger.left("people") == Ledger(path).left("people") == Decimal("0.25")


def test_a_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AuditUnavailable, match="cannot be used"):
        Ledger(tmp_path / "file" / "ledger.jsonl").set_budget("people", 1)
