"""Secure sums of residues: exact, masked on the wire, finished or burnt after a loss, strict with liars."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from duetlink.errors import (
    DuetError,
    GroupError,
    OperationAborted,
    OperationMismatch,
    PeerLost,
    RemoteProtocolError,
    SecureSumFailed,
)
from duetlink.groups.links.transport import Message
from duetlink.groups.secure.introduction import DIGEST_BYTES, Held, Introduction, Stage, digest
from duetlink.groups.secure.keystream import Residues
from duetlink.groups.secure.masked_round import MaskedRound, NextStep, RoundOperations, next_step
from duetlink.groups.secure.member_secrets import self_key
from duetlink.groups.secure.participants import Participants
from duetlink.groups.secure.residue_sum import ResidueSum
from duetlink.testing.faults import kept_round
from tests.groups.secure.conftest import KEYS, Epoch, MakeEpoch


class SumEpoch:
    """An epoch in which each seat has a sum under way."""

    def __init__(self, epoch: Epoch, sums: dict[int, ResidueSum]) -> None:
        self.network, self.seats = epoch.network, epoch.seats
        self.party, self.members, self.all = epoch.party, epoch.members, epoch.all
        self.sums = sums

    async def sum(
        self, give: Callable[[int], list[Residues]], *, terms: bytes = b"", colluding: int | None = None
    ) -> list[object]:
        """Each seat's sum of what `give` makes for it."""
        size = len(self.seats)

        async def one(rank: int) -> object:
            member, seat = self.members[rank], self.seats[rank]

            async def make() -> list[Residues]:
                return give(seat)

            wire = RoundOperations(member.flat, "test", f"a.py:{rank}")
            try:
                sums = self.sums.setdefault(seat, ResidueSum())
                collude = size - 2 if colluding is None else colluding
                return await sums.run(wire, self.party, terms, collude, make)
            except DuetError as error:
                member.engine.abandon("the sum", error)
                raise

        return await self.all(one)


MakeSum = Callable[..., SumEpoch]


@pytest.fixture
def make_sum(make_epoch: MakeEpoch) -> MakeSum:
    def make(seats: Sequence[int], number: int = 1, sums: dict[int, ResidueSum] | None = None) -> SumEpoch:
        return SumEpoch(make_epoch(seats, number), {} if sums is None else sums)

    return make


def values(seat: int, items: int = 100) -> list[Residues]:
    """Residues that differ from seat to seat, of both widths."""
    words = np.random.default_rng(seat).integers(0, 2**64, items, np.uint64)
    return [words.astype(np.uint32), words]


def total(seats: Sequence[int], items: int = 100) -> list[Residues]:
    parts = [values(seat, items) for seat in seats]
    narrow = np.add.reduce([part[0] for part in parts], dtype=np.uint32)
    return [narrow, np.add.reduce([part[1] for part in parts], dtype=np.uint64)]


def check_sums(found: Sequence[object], seats: Sequence[int], items: int = 100) -> None:
    for each in found:
        assert isinstance(each, list), each
        for got, wanted in zip(each, total(seats, items), strict=True):
            np.testing.assert_array_equal(got, wanted)


# -- the sum -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3, 4, 5, 9])
async def test_the_sum_is_exact_whatever_the_size(make_sum: MakeSum, size: int) -> None:
    epoch = make_sum(range(size))
    for items in (0, 1, 16, 16 * size + 1) if size < 9 else (100,):
        epoch.sums.clear()
        check_sums(await epoch.sum(lambda seat, items=items: values(seat, items)), range(size), items)  # type: ignore[misc]


async def test_a_sum_of_two_is_refused_with_the_reason(make_sum: MakeSum) -> None:
    for error in await make_sum([0, 1]).sum(values):
        assert isinstance(error, GroupError)
        assert "each subtracts its own value from the sum and has the other's" in str(error)


async def test_all_but_one_that_collude_are_refused(make_sum: MakeSum) -> None:
    for error in await make_sum(range(4)).sum(values, colluding=3):
        assert isinstance(error, GroupError)
        assert "learn that of a single member" in str(error)


# -- what travels ------------------------------------------------------------------------------------------


def watch(epoch: SumEpoch) -> dict[int, bytearray]:
    """What each rank sends in frames of more than 3,000 bytes."""
    seen: dict[int, bytearray] = {rank: bytearray() for rank in range(len(epoch.seats))}

    def on_send(of: int, to: int, message: Message) -> Message:
        if len(message.body) > 3000:
            seen[of] += bytes(message.body)
        return message

    epoch.network.on_send = on_send
    return seen


def deviation(counts: np.ndarray, wanted: np.ndarray) -> float:
    """Chi-square, in standard deviations from its mean."""
    freedom = counts.size - 1
    return float((((counts - wanted) ** 2 / wanted).sum() - freedom) / np.sqrt(2 * freedom))


async def test_a_member_s_frames_cannot_be_told_from_random_bits(make_sum: MakeSum) -> None:
    epoch = make_sum(range(3))
    seen = watch(epoch)
    zeros = np.zeros(60_000, np.uint32)
    for found in await epoch.sum(lambda seat: [zeros.copy()]):
        assert isinstance(found, list)
        assert not found[0].any()
    for rank in range(3):
        # two blocks to others, its own to its deputy: all that it has; the rest are sums, here of zeros
        data = np.frombuffer(seen[rank], np.uint8)
        masked = data[data.reshape(-1, 16).any(axis=1).repeat(16)][: zeros.nbytes]
        assert masked.size == zeros.nbytes  # what is not masked would be zeros, and left out above
        bits = np.unpackbits(masked)
        assert abs(int(bits.sum()) - bits.size / 2) < 5 * np.sqrt(bits.size / 4)
        pairs = bits[:-1] ^ bits[1:]
        assert abs(int(pairs.sum()) - pairs.size / 2) < 5 * np.sqrt(pairs.size / 4)
        counts = np.bincount(masked, minlength=256)
        assert abs(deviation(counts, np.full(256, masked.size / 256))) < 6
        per_place = bits.reshape(-1, 32).mean(axis=0)
        assert np.abs(per_place - 0.5).max() < 5 * np.sqrt(0.25 / (bits.size / 32))


async def test_the_same_values_look_different_in_every_round(make_sum: MakeSum) -> None:
    epoch = make_sum(range(3))
    seen = watch(epoch)
    rounds = []
    for _ in range(2):
        epoch.sums.clear()
        await epoch.sum(lambda seat: [values(seat, 10_000)[1]])
        rounds.append({rank: bytes(data) for rank, data in seen.items()})
        for data in seen.values():
            data.clear()
    for rank in range(3):
        one, other = (np.frombuffer(each[rank], np.uint64)[:6000] for each in rounds)
        apart = np.unpackbits((one ^ other).view(np.uint8))
        assert abs(int(apart.sum()) - apart.size / 2) < 5 * np.sqrt(apart.size / 4)


async def test_masks_of_two_that_were_told_different_lists_do_not_cancel() -> None:
    wire = [MaskedRound(Participants(1, tuple(KEYS[:3])), rank, b"") for rank in range(3)]
    other = MaskedRound(Participants(1, (*KEYS[:2], KEYS[5])), 0, b"")
    told = [each.secrets.introduction(0, Held(), b"") for each in wire]
    for each in [*wire, other]:
        each.introductions = told
    key = wire[1].secrets.pair_key(0, told[0].public_key, wire[1].digest, 0, "")
    assert wire[0].secrets.pair_key(1, told[1].public_key, wire[0].digest, 0, "") == key
    assert wire[0].secrets.pair_key(1, told[1].public_key, other.digest, 0, "") != key
    assert self_key(bytes(16), 0, wire[0].digest, 0) != self_key(bytes(16), 0, wire[0].digest, 1)


# -- losses ------------------------------------------------------------------------------------------------


def lose_at(epoch: SumEpoch, victim: int, number: int) -> None:
    """Lose that rank at its so many-th message, counted from 0."""
    sent = 0

    def on_send(of: int, to: int, message: Message) -> Message:
        nonlocal sent
        if of == victim:
            if sent == number:
                epoch.network.lose(victim)
                raise PeerLost("it is dead", rank=victim)
            sent += 1
        return message

    epoch.network.on_send = on_send


async def count_messages(make_sum: MakeSum, size: int, rank: int) -> int:
    """How many messages that rank sends in a whole sum."""
    epoch = make_sum(range(size))
    sent = 0

    def on_send(of: int, to: int, message: Message) -> Message:
        nonlocal sent
        sent += of == rank
        return message

    epoch.network.on_send = on_send
    await epoch.sum(values)
    return sent


@pytest.mark.parametrize(("size", "victim"), [(3, 0), (4, 1), (4, 3)])
async def test_a_loss_at_any_message_leaves_a_sum_with_or_without_the_lost_or_a_reason(
    make_sum: MakeSum, size: int, victim: int
) -> None:
    """Never both sums, and never one that is neither."""
    outcomes = []
    for number in range(await count_messages(make_sum, size, victim)):
        sums: dict[int, ResidueSum] = {}
        epoch = make_sum(range(size), 1, sums)
        lose_at(epoch, victim, number)
        before = await epoch.sum(values)
        left = [seat for seat in range(size) if seat != victim]
        done = [isinstance(before[seat], list) for seat in left]
        check_sums([before[seat] for seat, is_done in zip(left, done, strict=True) if is_done], range(size))
        if any(done):
            outcomes.append("done")
            continue
        stages = {
            Stage.NONE if (kept := kept_round(sums[seat])) is None else kept.held.stage for seat in left
        }
        after = await make_sum(left, 2, sums).sum(values)
        if all(isinstance(each, list) for each in after):
            shown = left if Stage.NONE in stages else range(size)
            check_sums(after, shown)
            outcomes.append("with" if len(shown) == size else "without")
        else:
            assert {type(each) for each in after} <= {SecureSumFailed, GroupError}, after
            outcomes.append("two" if size == 3 else "failed")
    assert outcomes[0] in ("without", "two")
    assert "with" in outcomes
    assert "failed" not in outcomes
    # before the commitments all begins anew, then the lost member's value counts
    order = ["two" if size == 3 else "without", "with", "done"]
    assert outcomes == sorted(outcomes, key=order.index)


async def test_two_that_are_lost_begin_it_anew_or_end_it_once_masks_were_told(make_sum: MakeSum) -> None:
    for stage in (Stage.COMMITTED, Stage.REVEALED):
        sums: dict[int, ResidueSum] = {}
        epoch = make_sum(range(6), 1, sums)

        def on_send(
            of: int, to: int, message: Message, *, epoch: SumEpoch = epoch, stage: Stage = stage
        ) -> Message:
            kept = [kept_round(each) for each in epoch.sums.values()]
            if len(kept) == 6 and all(each is not None and each.held.stage >= stage for each in kept):
                epoch.network.lose(1)
                raise PeerLost("it is dead", rank=1)
            return message

        epoch.network.on_send = on_send
        assert {type(each) for each in await epoch.sum(values)} == {PeerLost}
        after = await make_sum([0, 2, 3, 5], 2, sums).sum(values)
        if stage is Stage.COMMITTED:
            check_sums(after, [0, 2, 3, 5])
        else:
            assert {type(each) for each in after} == {SecureSumFailed}
            assert "differ by a member's value" in str(after[0])


async def test_what_a_burnt_round_has_sent_shows_nothing_beside_the_next_sum(
    make_sum: MakeSum, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both together are what an owner has: without self-masks their difference would be the lost value."""
    sums: dict[int, ResidueSum] = {}
    commit = MaskedRound.commit

    async def interrupted(self: MaskedRound, wire: RoundOperations) -> None:
        if self.participants.size == 4 and self.rank == 2:
            raise OperationAborted("it hears of a loss before it is committed")
        await commit(self, wire)

    monkeypatch.setattr(MaskedRound, "commit", interrupted)
    items = 4 * 4096
    await make_sum(range(4), 1, sums).sum(lambda seat: values(seat, items)[:1])
    kept = kept_round(sums[0])
    assert kept is not None
    assert kept.held.stage is Stage.COMMITTED  # it has all blocks, the lost member's too
    found = await make_sum([0, 1, 2], 2, sums).sum(lambda seat: values(seat, items)[:1])
    assert isinstance(found[0], list)
    np.testing.assert_array_equal(found[0][0], total([0, 1, 2], items)[0])
    block = kept.arrays[0].total - found[0][0][:4096]
    apart = np.unpackbits((block ^ values(3, items)[0][:4096]).view(np.uint8))
    assert abs(int(apart.sum()) - apart.size / 2) < 5 * np.sqrt(apart.size / 4)


def test_what_members_conclude_from_what_they_hold() -> None:
    none, one, other = Held(), Held(Stage.COMMITTED, b"1" * 32), Held(Stage.COMMITTED, b"2" * 32)
    told = Held(Stage.REVEALED, b"1" * 32)
    assert next_step([none, none], False) is NextStep.RESTART
    assert next_step([one, one], True) is NextStep.FINISH
    assert next_step([one, told], True) is NextStep.FINISH
    assert next_step([one, none], True) is NextStep.RESTART
    assert next_step([one, other], True) is NextStep.RESTART
    assert next_step([one, one], False) is NextStep.RESTART
    assert next_step([told, none], True) is NextStep.STOP
    assert next_step([told, one], False) is NextStep.STOP


async def test_what_was_interrupted_without_a_loss_is_finished(
    make_sum: MakeSum, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums: dict[int, ResidueSum] = {}
    gather = RoundOperations.gather

    async def interrupted(self: RoundOperations, mine: Residues, sizes: Sequence[int]) -> list[Residues]:
        raise OperationAborted("somebody has pressed Ctrl-C")

    monkeypatch.setattr(RoundOperations, "gather", interrupted)
    assert {type(each) for each in await make_sum(range(3), 1, sums).sum(values)} == {OperationAborted}
    monkeypatch.setattr(RoundOperations, "gather", gather)
    again = make_sum([1, 0, 2], 2, sums)  # ranks may have changed
    check_sums(await again.sum(values), range(3))


async def test_whoever_came_in_meanwhile_makes_those_that_have_told_nothing_begin_anew(
    make_sum: MakeSum,
) -> None:
    sums: dict[int, ResidueSum] = {}
    epoch = make_sum(range(4), 1, sums)
    lose_at(epoch, 3, 3)  # the first message of the masked values
    assert {type(each) for each in await epoch.sum(values)} == {PeerLost}
    check_sums(await make_sum([0, 1, 2, 7], 2, sums).sum(values), [0, 1, 2, 7])


# -- members that do not keep to the protocol ----------------------------------------------------------------


def alter(epoch: SumEpoch, liar: int, to: int, number: int, change: Callable[[bytearray], None]) -> None:
    """Change what the liar sends to that rank as the so many-th step, counted from 0."""
    sent = 0

    def on_send(of: int, towards: int, message: Message) -> Message:
        nonlocal sent
        if (of, towards) == (liar, to) and len(message.body):
            sent += 1
            if sent == number + 1:
                body = bytearray(message.body)
                change(body)
                return Message(message.head, memoryview(bytes(body)))
        return message

    epoch.network.on_send = on_send


def flip(at: int) -> Callable[[bytearray], None]:
    def change(body: bytearray) -> None:
        body[at] ^= 1

    return change


def overwrite(at: int, data: bytes) -> Callable[[bytearray], None]:
    def change(body: bytearray) -> None:
        body[at : at + len(data)] = data

    return change


KEY_AT = 1 + 2 * DIGEST_BYTES


@pytest.mark.parametrize(
    ("step", "change", "words"),
    [
        (0, overwrite(0, b"\x07"), r"rank 2 \(member 2\) reports a round at the unknown stage 7"),
        (0, flip(1 + DIGEST_BYTES), r"rank 2 \(member 2\) has another list of members"),
        (0, flip(-1), r"rank 2 \(member 2\) sent a share that does not fit its commitment"),
        (0, overwrite(KEY_AT, bytes(32)), r"the key of rank 2 \(member 2\) is not a usable X25519 key"),
        (0, flip(KEY_AT + 40), r"rank \d \(member \d\) received other keys of rank 2 \(member 2\)"),
        (2, flip(0), r"rank 2 \(member 2\) received other keys of"),
        (3, flip(0), r"rank 2 \(member 2\) sent a self-mask that is not the one"),
    ],
    ids=["no stage", "list", "share", "weak key", "two keys", "commitment", "seed"],
)
async def test_garbage_is_found_and_its_sender_named(
    make_sum: MakeSum, step: int, change: Callable[[bytearray], None], words: str
) -> None:
    epoch = make_sum(range(4))
    alter(epoch, 2, 1, step, change)
    found = await epoch.sum(lambda seat: [values(seat, 64)[0]])
    kinds = {type(each) for each in found}
    assert kinds <= {RemoteProtocolError, OperationMismatch, OperationAborted}, found
    with pytest.raises((RemoteProtocolError, OperationMismatch), match=words):
        raise next(each for each in found if isinstance(each, RemoteProtocolError | OperationMismatch))


async def test_a_changed_member_list_is_found(make_sum: MakeSum) -> None:
    epoch = make_sum(range(3))
    honest = epoch.party

    async def one(rank: int) -> object:
        party = Participants(1, (*KEYS[:2], KEYS[9])) if rank == 1 else honest
        wire = RoundOperations(epoch.members[rank].flat, "test", "")

        async def make() -> list[Residues]:
            return values(rank)

        try:
            return await ResidueSum().run(wire, party, b"", 1, make)
        except DuetError as error:
            epoch.members[rank].engine.abandon("the sum", error)
            raise

    for error in await epoch.all(one):
        assert isinstance(error, OperationMismatch)
        assert "has another list of members" in str(error)


async def test_other_terms_are_found(make_sum: MakeSum) -> None:
    epoch = make_sum(range(3))
    calls = iter((b"limit 1", b"limit 2", b"limit 1"))

    async def one(rank: int) -> object:
        wire = RoundOperations(epoch.members[rank].flat, "test", "")

        async def make() -> list[Residues]:
            raise AssertionError("nothing is given away")

        return await ResidueSum().run(wire, epoch.party, next(calls), 1, make)

    for error in await epoch.all(one):
        assert isinstance(error, OperationMismatch)


async def test_an_introduction_of_an_earlier_round_gives_no_old_masks(make_sum: MakeSum) -> None:
    """A member that tells its old keys again: the others' are new, and so are all masks with it."""
    epoch = make_sum(range(3))
    seen: dict[int, bytes] = {}
    seen_masked: list[bytes] = []

    def on_send(of: int, to: int, message: Message) -> Message:
        body = bytes(message.body)
        if of == 0 and to in (1, 2) and len(body) == Introduction.size_bytes(3):
            body = seen.setdefault(to, body)
        if (of, to) == (1, 2) and len(body) > 3000:
            seen_masked.append(body)
        return Message(message.head, memoryview(body))

    epoch.network.on_send = on_send
    constant = [np.arange(6000, dtype=np.uint64)]
    await epoch.sum(lambda seat: [constant[0].copy()])
    epoch.sums.clear()
    again = await epoch.sum(lambda seat: [constant[0].copy()])
    assert not any(isinstance(each, list) for each in again)  # it has not the private keys that it told of
    one, other = (np.frombuffer(each, np.uint64)[:2000] for each in (seen_masked[0], seen_masked[-1]))
    apart = np.unpackbits((one ^ other).view(np.uint8))
    assert abs(int(apart.sum()) - apart.size / 2) < 5 * np.sqrt(apart.size / 4)


async def test_a_false_share_of_a_lost_member_is_found_and_named(make_sum: MakeSum) -> None:
    sums: dict[int, ResidueSum] = {}
    await _interrupted_while_opening(make_sum, sums)
    epoch = make_sum([0, 1, 3], 2, sums)
    alter(epoch, 2, 0, 1, flip(32))  # seat 3 to seat 0: after its seed, its share
    found = await epoch.sum(values)
    with pytest.raises(RemoteProtocolError, match=r"rank 2 \(member 3\) sent a share"):
        raise next(each for each in found if isinstance(each, RemoteProtocolError))


async def test_a_lost_member_that_dealt_false_shares_is_found(make_sum: MakeSum) -> None:
    sums: dict[int, ResidueSum] = {}
    await _interrupted_while_opening(make_sum, sums)
    for each in sums.values():
        kept = kept_round(each)
        assert kept is not None
        old = kept.introductions[2]
        kept.introductions[2] = Introduction(
            old.held, old.terms_digest, old.public_key, digest("seed", b"other"), old.share_digests, old.share
        )
    for error in await make_sum([0, 1, 3], 2, sums).sum(values):
        assert isinstance(error, SecureSumFailed)


async def _interrupted_while_opening(make_sum: MakeSum, sums: dict[int, ResidueSum]) -> None:
    """Four members, of whom the third is lost once all have told their seeds."""
    epoch = make_sum(range(4), 1, sums)

    def on_send(of: int, to: int, message: Message) -> Message:
        kept = [kept_round(each) for each in sums.values()]
        if len(kept) == 4 and all(each is not None and each.held.stage is Stage.REVEALED for each in kept):
            epoch.network.lose(2)
            raise PeerLost("it is dead", rank=2)
        return message

    epoch.network.on_send = on_send
    assert {type(each) for each in await epoch.sum(values)} == {PeerLost}
