"""Secure sums that name who gave garbage: each lie that a member can tell, and what the honest ones raise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duetlink.errors import (
    OperationAborted,
    OperationMismatch,
    PeerLost,
    RemoteProtocolError,
    SecureSumFailed,
)
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.links.transport import Message
from duetlink.groups.secure import accountable_round, averages, naming
from duetlink.groups.secure.accountable_round import AccountableRound
from duetlink.groups.secure.introduction import digest
from duetlink.groups.secure.keystream import Residues
from duetlink.groups.secure.masked_round import RoundOperations
from duetlink.groups.secure.naming import Evidence, MaskStatement, TrialFacts, Trials, Verdict
from duetlink.groups.secure.statements import SIGNATURE_BYTES, Statements
from duetlink.groups.secure.sums import SecureSum
from duetlink.testing.faults import replace_function
from tests.groups.secure.conftest import Epoch, MakeEpoch

DTYPES = (np.float32, np.float64, np.int64)


async def reduce(
    epoch: Epoch, values: Sequence[Any], sums: Sequence[SecureSum] | None = None, **arguments: Any
) -> list[Any]:
    async def one(rank: int) -> object:
        secure = SecureSum() if sums is None else sums[rank]
        return await secure.run(
            epoch.members[rank],
            epoch.party,
            values[rank],
            ReduceOptions(secure=True, limit=10.0, accountable=True, **arguments),
            call=f"a.py:{rank}",
        )

    return await epoch.all(one)


def give_garbage(monkeypatch: pytest.MonkeyPatch, liar: int, change: Callable[[Residues], None]) -> None:
    """Have that rank add what it likes in place of its residues."""
    mask = AccountableRound.mask

    async def with_garbage(self: AccountableRound, wire: RoundOperations, arrays: Sequence[Residues]) -> None:
        if self.rank == liar:
            for array in arrays:
                change(array)
        await mask(self, wire, arrays)

    monkeypatch.setattr(AccountableRound, "mask", with_garbage)


def replace(place: int, value: int) -> Callable[[Residues], None]:
    def change(array: Residues) -> None:
        array[place] = value

    return change


def everything(array: Residues) -> None:
    array[...] = np.random.default_rng(5).integers(0, 2**64, len(array), np.uint64)


def state(monkeypatch: pytest.MonkeyPatch, liar: int, change: Callable[[Evidence], None]) -> None:
    """Have that rank state something else of the trials."""

    def stated(self: AccountableRound, *arguments: Any) -> Evidence:
        found: Evidence = evidence(self, *arguments)
        if self.rank == liar:
            change(found)
        return found

    evidence = replace_function(monkeypatch, AccountableRound, "evidence", stated)


def signed_of(statements: Statements, step: str, data: bytes) -> bytes:
    """What a member signs that states `data`."""
    return digest("statement", statements.round + digest(step, data))


def check_named(found: Sequence[Any], liar: int) -> None:
    for rank, each in enumerate(found):
        assert isinstance(each, SecureSumFailed), (rank, each)
        assert (each.ranks, each.names, each.is_pair) == ((liar,), (f"member {liar}",), False)
        assert str(each).startswith(f"rank {liar} (member {liar}) gave garbage to a secure sum"), each


def check_pair(found: Sequence[Any], one: int, other: int) -> None:
    for each in found:
        assert isinstance(each, SecureSumFailed), each
        assert (each.ranks, each.is_pair) == ((one, other), True)
        assert str(each).startswith(
            f"rank {one} (member {one}) or rank {other} (member {other}) does not keep to the protocol"
        ), each


# -- without garbage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "dtype"), [(3, np.float32), (4, np.float64), (5, np.int64)])
async def test_the_sum_is_that_of_a_plain_secure_sum_in_coarser_steps(
    make_epoch: MakeEpoch, size: int, dtype: Any
) -> None:
    values = [np.arange(100).astype(dtype) / (10 + rank) for rank in range(size)]
    values = [value.astype(dtype) for value in values]
    found = await reduce(make_epoch(range(size)), values)
    step = 0 if dtype is np.int64 else 2.0**-25 if size > 4 else 2.0**-26
    for each in found:
        assert each.dtype == dtype
        np.testing.assert_array_equal(each, found[0])
        np.testing.assert_allclose(each, np.sum(values, axis=0), atol=size * step / 2, rtol=1e-7)


async def test_the_largest_values_with_noise_accuse_nobody(make_epoch: MakeEpoch) -> None:
    for sign in (1.0, -1.0):
        for each in await reduce(make_epoch(range(5)), [np.full(40, 10.0 * sign)] * 5, noise=0.5):
            assert np.abs(each - 50 * sign).max() < 10


async def test_a_weighted_average_names_too(make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch) -> None:
    epoch = make_epoch(range(3))

    async def one(rank: int) -> object:
        value = {"x": np.full(2, float(rank))}
        return await averages.average(
            SecureSum(),
            epoch.members[rank],
            epoch.party,
            value,
            (1.0, 0.0, 3.0)[rank],
            ReduceOptions(secure=True, limit=4.0, accountable=True),
            call="",
        )

    for found in await epoch.all(one):
        np.testing.assert_allclose(found["x"], 1.5, atol=2**-7)  # type: ignore[index]
    give_garbage(monkeypatch, 2, replace(0, 2**60))
    check_named(await epoch.all(one), 2)


async def test_all_have_to_call_it_alike(make_epoch: MakeEpoch) -> None:
    epoch = make_epoch(range(3))

    async def one(rank: int) -> object:
        return await SecureSum().run(
            epoch.members[rank],
            epoch.party,
            np.ones(3),
            ReduceOptions(secure=True, limit=1.0, accountable=rank != 1),
        )

    for each in await epoch.all(one):
        assert isinstance(each, OperationMismatch)
        assert "or another range, noise, number of colluding members or accountable=" in str(each)


# -- garbage -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3, 4, 5])
async def test_whoever_sends_random_residues_is_named_at_all(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    for liar in range(size):
        with monkeypatch.context() as patch:
            give_garbage(patch, liar, everything)
            values = [np.ones(200, DTYPES[liar % 3])] * size
            check_named(await reduce(make_epoch(range(size)), values), liar)


@pytest.mark.parametrize("place", [0, 17, 63], ids=["in another's block", "in its own", "in the last one"])
async def test_one_item_of_garbage_is_enough(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    give_garbage(monkeypatch, 1, replace(place, 2**64 - 2**60))
    check_named(await reduce(make_epoch(range(4)), [np.zeros(64)] * 4), 1)


async def test_numbers_that_are_chosen_against_the_garbage_do_not_help(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """127 times the garbage is taken off again: what is left is small for a few factors near 127 alone."""
    give_garbage(monkeypatch, 1, replace(3, 3 * 2**58))
    blinds, turn = naming.blinds, iter(range(3))

    def chosen(members: int) -> Residues:
        found = blinds(members)
        # the order in which members come here is that of their ranks
        return found - np.uint64(127 * 3 * 2**58 % 2**64) if next(turn) == 1 else found

    monkeypatch.setattr(naming, "blinds", chosen)
    check_named(await reduce(make_epoch(range(3)), [np.zeros(20)] * 3), 1)


async def test_two_that_give_garbage_are_both_named(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_garbage(monkeypatch, 0, replace(2, 3 * 2**58))
    give_garbage(monkeypatch, 3, replace(2, 5 * 2**57))
    for each in await reduce(make_epoch(range(4)), [np.zeros(20)] * 4):
        assert isinstance(each, SecureSumFailed), each
        assert (each.ranks, each.names, each.is_pair) == ((0, 3), ("member 0", "member 3"), False)


async def test_garbage_that_is_not_far_beyond_the_range_is_refused_and_nothing_more_is_told(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_garbage(monkeypatch, 1, replace(0, 2**54))
    state(monkeypatch, 0, lambda evidence: pytest.fail("evidence was made"))
    epoch = make_epoch(range(3))
    for each in await reduce(epoch, [np.zeros(20)] * 3):
        assert isinstance(each, SecureSumFailed)
        assert each.ranks == ()
        assert each.names == ()
        assert "does not reveal which one" in str(each)
    # introduction, values, openings, commitments, seeds, sums, and digests of them told twice
    assert epoch.members[0].engine.completed == 8


# -- owners that lie ---------------------------------------------------------------------------------------


async def test_an_owner_that_tells_a_false_sum_is_named(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def false(self: AccountableRound, *arguments: Any) -> Residues:
        found: Residues = await unmasked(self, *arguments)
        if self.rank == 2:
            found[1] += np.uint64(2**60)
        return found

    unmasked = replace_function(monkeypatch, AccountableRound, "unmasked", false)
    check_named(await reduce(make_epoch(range(4)), [np.zeros(64)] * 4), 2)


async def test_an_owner_that_tells_members_different_sums_is_named_with_who_says_so(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The false sum is within the range: nobody would find it alone."""
    exchange = RoundOperations.exchange

    async def two(self: RoundOperations, step: str, given: Residues, *sizes: Any) -> list[Residues]:
        if step == "sums 0" and self.flat.engine.rank == 1:
            given[-1] += np.uint64(1)  # to the last one
        return await exchange(self, step, given, *sizes)

    monkeypatch.setattr(RoundOperations, "exchange", two)
    found = await reduce(make_epoch(range(4)), [np.zeros(64)] * 4)
    check_pair(found, 1, 3)
    assert "different sums that one has sent to the other" in str(found[0])


async def test_an_owner_that_blames_another_for_its_false_sum_is_named_with_it(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_garbage(monkeypatch, 0, replace(1, 2**60))

    def blame(evidence: Evidence) -> None:
        evidence.sent[2] += np.uint64(2**60)

    state(monkeypatch, 0, blame)
    found = await reduce(make_epoch(range(4)), [np.zeros(64)] * 4)
    check_pair(found, 0, 2)
    assert "different items that one has sent to the other" in str(found[0])


async def test_a_member_that_denies_what_it_sent_is_named_with_the_owner(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_garbage(monkeypatch, 3, replace(1, 2**60))

    def deny(evidence: Evidence) -> None:
        evidence.sent[3] -= np.uint64(2**60)

    state(monkeypatch, 3, deny)
    check_pair(await reduce(make_epoch(range(4)), [np.zeros(64)] * 4), 0, 3)


async def test_a_false_mask_of_a_pair_names_the_pair(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_garbage(monkeypatch, 1, replace(1, 2**60))

    def false_mask(evidence: Evidence) -> None:
        evidence.pairs[2] += np.uint64(2**62)

    state(monkeypatch, 1, false_mask)
    found = await reduce(make_epoch(range(4)), [np.zeros(64)] * 4)
    check_pair(found, 1, 2)
    assert "different shared masks" in str(found[0])


async def test_a_false_accuser_does_not_hide_who_gave_garbage(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_garbage(monkeypatch, 1, replace(1, 2**60))

    def accuse(evidence: Evidence) -> None:
        evidence.pairs[0] += np.uint64(1)

    state(monkeypatch, 3, accuse)
    check_named(await reduce(make_epoch(range(4)), [np.zeros(64)] * 4), 1)


# -- members that tell two things --------------------------------------------------------------------------


def tell(monkeypatch: pytest.MonkeyPatch, liar: int, at: str, change: Callable[[list[bytes]], None]) -> None:
    """Have that rank tell each member what `change` makes of it, in that step."""
    send_each = RoundOperations.send_each

    async def told(self: RoundOperations, step: str, pieces: Sequence[bytes]) -> list[bytes]:
        pieces = list(pieces)
        if step == at and self.flat.engine.rank == liar:
            change(pieces)
        return await send_each(self, step, pieces)

    monkeypatch.setattr(RoundOperations, "send_each", told)


@pytest.mark.parametrize("step", ["digests of sums", "evidence"])
async def test_whoever_signs_two_statements_is_named_alone(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    give_garbage(monkeypatch, 2, replace(1, 2**60))
    made: list[Statements] = []

    async def agree(
        self: AccountableRound, wire: RoundOperations, statements: Statements, *rest: Any
    ) -> None:
        if self.rank == 2:
            made.append(statements)
        await init(self, wire, statements, *rest)

    def change(pieces: list[bytes]) -> None:
        data = bytearray(pieces[0][:-SIGNATURE_BYTES])
        data[-1] ^= 1
        pieces[0] = bytes(data) + made[0].private.sign(signed_of(made[0], step, bytes(data)))

    init = replace_function(monkeypatch, AccountableRound, "agree", agree)
    tell(monkeypatch, 2, step, change)
    for rank, each in enumerate(await reduce(make_epoch(range(4)), [np.zeros(64)] * 4)):
        assert isinstance(each, SecureSumFailed), (rank, each)
        assert (each.ranks, each.is_pair) == ((2,), False)
        assert "rank 2 (member 2) has sent members different signed statements" in str(each)


def flip(towards: int, at: int) -> Callable[[list[bytes]], None]:
    def change(pieces: list[bytes]) -> None:
        data = bytearray(pieces[towards])
        data[at] ^= 1
        pieces[towards] = bytes(data)

    return change


@pytest.mark.parametrize(
    ("step", "at", "words"),
    [
        ("openings", 40, r"rank \d \(member \d\) received other keys of rank 2 \(member 2\)"),
        ("coins", 0, r"rank 2 \(member 2\) sent coins that it was not committed to"),
        ("evidence", 0, r"rank 2 \(member 2\) has not signed its evidence"),
        ("digests of sums", -1, r"rank 2 \(member 2\) has not signed its digests of sums"),
        (
            "evidence of all",
            0,
            r"rank 2 \(member 2\) passed on evidence that rank 0 \(member 0\) has not signed",
        ),
        (
            "digests of sums of all",
            -SIGNATURE_BYTES - 1,
            r"rank 2 \(member 2\) passed on digests of sums that rank 3 \(member 3\)",
        ),
    ],
)
async def test_what_is_not_what_was_promised_names_its_sender(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch, step: str, at: int, words: str
) -> None:
    give_garbage(monkeypatch, 2, replace(1, 2**60))
    tell(monkeypatch, 2, step, flip(1, at))
    found = await reduce(make_epoch(range(4)), [np.zeros(64)] * 4)
    honest = [found[rank] for rank in (0, 1, 3)]
    kinds = (RemoteProtocolError, OperationMismatch, OperationAborted)
    # whoever has heard nothing wrong by then names the one that gave garbage, who is the same one here
    assert all(isinstance(each, kinds) or getattr(each, "ranks", None) == (2,) for each in honest), found
    with pytest.raises((RemoteProtocolError, OperationMismatch), match=words):
        raise next(each for each in honest if isinstance(each, RemoteProtocolError | OperationMismatch))


async def test_nobody_raises_before_all_know_what_to_raise(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The liar sends its last piece, to rank 1, once another member has drawn its conclusion."""
    give_garbage(monkeypatch, 2, replace(1, 2**60))
    epoch = make_epoch(range(4))
    concluded = asyncio.Event()
    late = False
    judge, send = TrialFacts.judge, epoch.network.send

    def judged(self: TrialFacts, evidence: Sequence[Evidence]) -> Verdict | None:
        concluded.set()
        return judge(self, evidence)

    async def slow(of: int, to: int, message: Message) -> None:
        if late and (of, to) == (2, 1):
            await asyncio.wait_for(concluded.wait(), 10)
            for _ in range(1000):  # of the loop: whoever could raise by now would have
                await asyncio.sleep(0)
        await send(of, to, message)

    def begins(pieces: list[bytes]) -> None:
        nonlocal late
        late = True

    monkeypatch.setattr(TrialFacts, "judge", judged)
    monkeypatch.setattr(epoch.network, "send", slow)
    tell(monkeypatch, 2, "evidence of all", begins)
    check_named(await reduce(epoch, [np.zeros(64)] * 4), 2)
    assert late


@pytest.mark.parametrize("says", ["nothing", "that it gives up"])
async def test_whoever_holds_up_the_end_is_named_all_the_same(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    give_garbage(monkeypatch, 2, replace(1, 2**60))
    monkeypatch.setattr(accountable_round, "CLOSING_S", 0.2)
    send_each = RoundOperations.send_each

    async def told(self: RoundOperations, step: str, pieces: Sequence[bytes]) -> list[bytes]:
        if step == "end" and self.flat.engine.rank == 2:
            if says == "nothing":
                await asyncio.Event().wait()
            raise OperationAborted("it gives up")
        return await send_each(self, step, pieces)

    monkeypatch.setattr(RoundOperations, "send_each", told)
    check_named(await reduce(make_epoch(range(4)), [np.zeros(64)] * 4), 2)


class Repeating:
    """A wire by which a member that is alone hears the same at every step."""

    def __init__(self, told: bytes) -> None:
        self.told = told

    async def send_each(self, step: str, pieces: Sequence[bytes]) -> list[bytes]:
        return [self.told]

    def name(self, rank: int) -> str:
        return f"rank {rank}"


async def test_a_signature_holds_for_one_step_of_one_round() -> None:
    private = Ed25519PrivateKey.generate()
    one = Statements(bytes(32), private, [private.public_key().public_bytes_raw()])
    other = Statements(bytes(31) + b"1", private, one.keys)
    keyless = Statements(bytes(32), private, [bytes(31)])
    wire: Any = Repeating(b"data" + private.sign(signed_of(one, "evidence", b"data")))
    assert (await one.declare(wire, "evidence", b"data")).statements == [b"data"]
    for statements, step in ((one, "digests of sums"), (other, "evidence"), (keyless, "evidence")):
        with pytest.raises(RemoteProtocolError, match="rank 0 has not signed its"):
            await statements.declare(wire, step, b"data")


# -- losses, and what is shown -----------------------------------------------------------------------------


async def test_a_loss_while_it_is_found_out_ends_the_sum_and_evidence_is_told_once(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_garbage(monkeypatch, 2, replace(1, 2**60))
    sums = [SecureSum() for _ in range(4)]
    epoch = make_epoch(range(4))
    told: list[int] = []
    state(monkeypatch, 0, lambda evidence: told.append(1))

    def goes(pieces: list[bytes]) -> None:
        epoch.network.lose(2)
        raise PeerLost("it is gone", rank=2)

    tell(monkeypatch, 2, "evidence", goes)
    assert {type(each) for each in await reduce(epoch, [np.ones(64)] * 4, sums)} == {PeerLost}
    left = [0, 1, 3]
    after = await reduce(make_epoch(left, 2), [np.ones(64)] * 3, [sums[seat] for seat in left])
    for each in after:
        assert isinstance(each, SecureSumFailed)
        assert each.ranks == ()
    assert told == [1]


async def test_what_honest_members_state_cannot_be_told_from_random_bits(
    make_epoch: MakeEpoch, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_garbage(monkeypatch, 2, replace(1, 2**60))
    stated: list[bytes] = []

    def keep(evidence: Evidence) -> None:
        rows = [evidence.sent[1], evidence.pairs[0], evidence.pairs[2], evidence.pairs[3]]
        stated.append(np.stack(rows).tobytes())

    state(monkeypatch, 1, keep)
    monkeypatch.setattr(Trials, "of", _spread)
    for _ in range(4):
        check_named(await reduce(make_epoch(range(4)), [np.zeros(64)] * 4), 2)
    bits = np.unpackbits(np.frombuffer(b"".join(stated), np.uint8))
    assert bits.size == 4 * 4 * 16 * 64
    assert abs(int(bits.sum()) - bits.size / 2) < 5 * np.sqrt(bits.size / 4)
    pairs = bits[:-1] ^ bits[1:]
    assert abs(int(pairs.sum()) - pairs.size / 2) < 5 * np.sqrt(pairs.size / 4)


def _spread(coins: bytes, candidates: np.ndarray) -> Trials:
    """At 16 places, so that what is stated of them has as many masks; only the first one is out of range."""
    factors = np.full(16, 255, np.uint64)
    first = int(candidates[0])
    return Trials((first, *(place for place in range(16) if place != first)), factors)


def test_an_opening_of_another_length_is_refused() -> None:
    whole = bytes(MaskStatement.size_bytes())
    assert MaskStatement.from_wire(whole, "ann").to_wire() == whole
    with pytest.raises(RemoteProtocolError, match="ann sent 191 bytes in place of 192"):
        MaskStatement.from_wire(whole[1:], "ann")
    stated = bytes(Evidence.size_bytes(4))
    assert Evidence.from_wire(stated, 4, "ann").to_wire() == stated
    with pytest.raises(RemoteProtocolError, match="ann stated 1023 bytes in place of 1024"):
        Evidence.from_wire(stated[1:], 4, "ann")
