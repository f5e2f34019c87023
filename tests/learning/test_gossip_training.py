"""Gossip for torch models: what is averaged, that it learns, and that it goes on after a restart."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from duetlink.errors import OperationMismatch, SettingError, UnsupportedValue
from duetlink.learning import Gossip
from duetlink_gossip.udp import UdpPost
from tests.learning.test_gossip_udp import bound, pair_secrets

MakePosts = Callable[[int], list[UdpPost]]


@pytest.fixture
def make_posts() -> Iterator[MakePosts]:
    """Makes so many, which are closed at the end."""
    made: list[UdpPost] = []

    def make(size: int) -> list[UdpPost]:
        socks: list[socket.socket] = [bound() for _ in range(size)]
        addresses = [[sock.getsockname()] for sock in socks]
        shared = pair_secrets(size)
        made.extend(UdpPost(sock, rank, addresses, shared[rank]) for rank, sock in enumerate(socks))
        return made[-size:]

    yield make
    for post in made:
        post.close()


def together(calls: list[Any]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(60) for future in [pool.submit(call) for call in calls]]


@pytest.fixture
def closing(make_posts: MakePosts) -> Iterator[list[Gossip]]:
    """Closes what is put into it, before the posts."""
    made: list[Gossip] = []
    yield made
    for each in made:
        each.close()


def test_parameters_and_running_statistics_are_averaged_and_counters_are_not(
    closing: list[Gossip], make_posts: MakePosts
) -> None:
    models = [nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).double() for _ in range(2)]
    for rank, model in enumerate(models):
        with torch.no_grad():
            for tensor in model.state_dict().values():
                tensor.fill_(4 * rank)
    closing += [Gossip(m, p, precision="float32") for m, p in zip(models, make_posts(2), strict=True)]
    together([gossip.mix for gossip in closing])
    for rank, model in enumerate(models):
        state = model.state_dict()
        assert {float(v.max()) for name, v in state.items() if "num_batches" not in name} == {2.0}
        assert int(state["1.num_batches_tracked"]) == 4 * rank
        assert state["0.weight"].dtype == torch.float64


def test_who_hears_nothing_keeps_every_bit(closing: list[Gossip], make_posts: MakePosts) -> None:
    model = nn.Linear(5, 5)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    closing.append(Gossip(model, make_posts(2)[0], precision="int8", patience_s=0.05))
    mixed = closing[0].mix()
    assert (mixed.reason, mixed.received) == ("deadline", {1: 0.0})
    assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))


def learn(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, seed: int) -> None:
    """A few steps on rows that follow from the seed."""
    drawn = torch.randint(len(x), (4, 16), generator=torch.Generator().manual_seed(seed))
    for rows in drawn:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()


def test_four_learn_what_none_has_all_rows_of_and_go_on_after_a_restart(
    closing: list[Gossip], tmp_path: Path, make_posts: MakePosts
) -> None:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    x, y = torch.from_numpy((pixels / 16).astype(np.float32)), torch.from_numpy(labels)
    # each member has two or three of the ten digits
    parts = [torch.nonzero(y[:1400] % 4 == rank).reshape(-1) for rank in range(4)]

    def make(rank: int) -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
        return model, torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.5)

    def train(rank: int, last: int) -> None:
        model, optimizer = members[rank]
        # not so many calls: who was late skips rounds, and would go on alone when the others have ended
        while closing[rank].round < last:
            learn(model, optimizer, x[parts[rank]], y[parts[rank]], seed=closing[rank].round)
            closing[rank].mix()

    members = [make(rank) for rank in range(4)]
    arguments: dict[str, Any] = {"graph": "full", "push_sum": True, "patience_s": 20.0}
    closing += [Gossip(members[r][0], p, **arguments) for r, p in enumerate(make_posts(4))]
    together([lambda r=r: train(r, 10) for r in range(4)])
    for rank in range(4):
        closing[rank].save(tmp_path / f"{rank}.pt", members[rank][1])
        closing[rank].close()
    # all of them begin again, in new processes as it were
    kept = [[p.detach().clone() for p in model.parameters()] for model, _ in members]
    members = [make(rank) for rank in range(4)]
    closing[:] = [Gossip(members[r][0], p, **arguments) for r, p in enumerate(make_posts(4))]
    for rank in range(4):
        closing[rank].load(tmp_path / f"{rank}.pt", members[rank][1])
        assert closing[rank].round >= 10
        assert all(torch.equal(a, b) for a, b in zip(kept[rank], members[rank][0].parameters(), strict=True))
        assert members[rank][1].state_dict()["state"][0]["momentum_buffer"].abs().sum() > 0
    together([lambda r=r: train(r, 20) for r in range(4)])
    for model, _ in members:
        accuracy = float((model(x[1400:]).argmax(1) == y[1400:]).float().mean())
        assert accuracy > 0.5  # alone with its own digits, none gets beyond 0.3


def test_models_of_other_shapes_of_one_size_are_told_apart(
    closing: list[Gossip], make_posts: MakePosts
) -> None:
    models = [nn.Linear(3, 4, bias=False), nn.Linear(4, 3, bias=False)]
    closing += [Gossip(m, p, patience_s=1.0) for m, p in zip(models, make_posts(2), strict=True)]

    def mix(gossip: Gossip) -> Any:
        with pytest.raises(OperationMismatch, match="names and shapes of parameters"):
            gossip.mix()
            gossip.mix()
        return gossip.mix().reason

    assert together([lambda g=g: mix(g) for g in closing]) == ["alone"] * 2


def test_a_model_that_is_not_finite_stays_here(closing: list[Gossip], make_posts: MakePosts) -> None:
    model = nn.Linear(3, 4)
    closing.append(Gossip(model, make_posts(2)[0], patience_s=0.1))
    with torch.no_grad():
        model.bias[1] = torch.nan
    with pytest.raises(UnsupportedValue, match="1 of 16 parameters are not finite"):
        closing[0].mix()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"precision": "float8"}, "there are float32, int16, int8"),
        ({"graph": "star"}, "there are ring"),
        ({"graph": "regular", "degree": 9}, "4 members have 1 to 3"),
        ({"patience_s": float("nan")}, "patience_s is nan"),
        ({"patience_s": 0.0}, "patience_s is 0.0"),
        ({"fec": 2.5}, "fec is 2.5 over datagrams"),
    ],
)
def test_a_gossip_that_cannot_be_is_refused(arguments: Any, said: str, make_posts: MakePosts) -> None:
    with pytest.raises(SettingError, match=said):
        Gossip(nn.Linear(2, 2), make_posts(4)[0], **arguments)
    with pytest.raises(SettingError, match="nothing to average"):
        Gossip(nn.ReLU(), make_posts(4)[0])
    with pytest.raises(UnsupportedValue, match=r"weight is torch\.complex64: averaged are real numbers"):
        Gossip(nn.Linear(2, 2, dtype=torch.complex64), make_posts(4)[0])


def test_a_mask_that_is_made_anew_each_time_stays_here(closing: list[Gossip], make_posts: MakePosts) -> None:
    model = nn.Linear(3, 2)
    model.register_buffer("mask", torch.full((2, 2), -torch.inf), persistent=False)
    closing.append(Gossip(model, make_posts(2)[0], patience_s=0.05))
    assert closing[0].mix().received == {1: 0.0}


def test_a_file_that_is_no_checkpoint_is_refused(
    closing: list[Gossip], tmp_path: Path, make_posts: MakePosts
) -> None:
    closing.append(Gossip(nn.Linear(2, 2), make_posts(2)[0]))
    path = tmp_path / "kept.pt"
    path.write_bytes(b"no checkpoint")
    with pytest.raises(SettingError, match="cannot be read"):
        closing[0].load(path)
    torch.save({"format": "another"}, path)
    with pytest.raises(SettingError, match="of another format"):
        closing[0].load(path)
    closing[0].save(path)
    closing.append(Gossip(nn.Linear(3, 2), make_posts(2)[0]))
    with pytest.raises(SettingError, match=r"(?s)has another model: .*size mismatch for weight"):
        closing[1].load(path)
    with pytest.raises(SettingError, match="this is no state of a gossip"):
        closing[1].load_state_dict({"round": 1, "probes": {"dtype": "<f4", "shape": [1], "bytes": 5}})
    with pytest.raises(FileNotFoundError):
        closing[0].load(tmp_path / "nowhere.pt")
