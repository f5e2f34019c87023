"""A private training as text: the same training comes of it, or it is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from duetlink.errors import SettingError
from duetlink.learning import DpSgd

CLASSES = nn.CrossEntropyLoss(reduction="none")


def training(model: nn.Module, loss: Any = CLASSES, optimizer: Any = None, **changes: Any) -> DpSgd:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5) if optimizer is None else optimizer
    return DpSgd(model, optimizer, loss, **{"rows": 100, "batch": 20, "clip": 1.0, "noise": 2.0, **changes})


def test_a_training_is_written_as_a_person_would() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1, bias=False), nn.Flatten(0))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    text, weights = training(model, nn.MSELoss(reduction="none"), optimizer).as_function(5)
    assert text == (
        "import numpy\nimport torch\nfrom torch import nn\n\nfrom duetlink.learning import DpSgd\n\n\n"
        "def train(x, y, weights):\n"
        "    model = nn.Sequential(\n"
        "        nn.Linear(in_features=2, out_features=3),\n"
        "        nn.ReLU(),\n"
        "        nn.Linear(in_features=3, out_features=1, bias=False),\n"
        "        nn.Flatten(start_dim=0),\n"
        "    )\n"
        "    nn.utils.vector_to_parameters(weights, model.parameters())\n"
        "    training = DpSgd(\n"
        "        model,\n"
        "        torch.optim.Adam(model.parameters(), lr=0.02),\n"
        "        nn.MSELoss(reduction='none'),\n"
        "        rows=100, batch=20, clip=1.0, noise=2.0, clipping='bookkeeping',\n"
        "    )\n"
        "    training.fit(\n"
        "        torch.tensor(numpy.asarray(x), dtype=torch.float32),\n"
        "        torch.tensor(numpy.asarray(y), dtype=torch.float32),\n"
        "        epochs=5,\n"
        "    )\n"
        "    return {name: weight.clone() for name, weight in model.state_dict().items()}\n"
    )
    assert weights.tolist() == torch.cat([one.detach().reshape(-1) for one in model.parameters()]).tolist()


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(
            nn.Conv2d(1, 2, (3, 2), stride=2, padding=1), nn.GELU("tanh"), nn.Flatten(), nn.Linear(8, 2)
        ),
        nn.Sequential(
            nn.Embedding(5, 4, padding_idx=1), nn.Flatten(), nn.LayerNorm(8, eps=1e-3), nn.Linear(8, 2)
        ),
        nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.GroupNorm(2, 4, affine=True)), nn.Linear(4, 2)),
        nn.Linear(3, 2),
    ],
)
def test_what_is_written_makes_the_same_model(model: nn.Module) -> None:
    text, weights = training(model).as_function(1)
    expression = text[text.index("model = ") + 8 : text.index("    nn.utils")]
    made = eval(expression, {"nn": nn})
    nn.utils.vector_to_parameters(weights, made.parameters())
    assert repr(made) == repr(model)
    assert all(
        torch.equal(one, other) for one, other in zip(made.parameters(), model.parameters(), strict=True)
    )


class Own(nn.Linear):
    pass


def half(model: nn.Module) -> Any:
    return torch.optim.SGD([{"params": p} for p in model.parameters()], lr=0.1)


def test_what_cannot_be_written_is_refused() -> None:
    plain = nn.Linear(2, 2)
    changed = nn.Linear(2, 2)
    changed.register_forward_hook(lambda *arguments: None)
    tampered: Any = nn.Dropout(0.5)
    tampered.extra = 3
    for sent, words in (
        (training(Own(2, 2)), "Own is no layer"),
        (training(nn.Sequential(changed)), "was changed"),
        (training(nn.Sequential(plain, tampered)), "cannot be written"),
        (training(plain, lambda outputs, targets: outputs.sum(1)), "no module of torch.nn"),
        (training(plain, nn.CrossEntropyLoss(torch.ones(2), reduction="none")), "weight of"),
        (training(plain, optimizer=half(plain)), "groups of parameters"),
        (training(nn.Linear(2, 2).double()), "float32"),
    ):
        with pytest.raises(SettingError, match=words):
            sent.as_function(1)
    with pytest.raises(SettingError, match="epochs is 0"):
        training(plain).as_function(0)
