"""The notebooks of PySyft's Duet that need torch, pandas, scikit-learn or statsmodels alone, in small: what a
scientist trains and fits on pointers has the weights and results of the same program on the data themselves.

Sources: https://github.com/OpenMined/PySyft, 0.5, `examples/duet/`, whose networks are those of
https://github.com/pytorch/examples.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional

from duetlink import Mock
from tests.remote.conftest import Bench

Train = Callable[..., dict[str, Any]]


def draw(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def choose(most: int, *shape: int, seed: int = 2) -> torch.Tensor:
    return torch.randint(0, most, shape, generator=torch.Generator().manual_seed(seed))


def compare(bench: Bench, train: Train, models: dict[str, nn.Module], data: dict[str, Any]) -> None:
    """Run `train` on models and tensors here and at the owner; compare what it returns, and all weights.

    `data` has tensors, or pairs of a tensor and a Mock. Sums of floats of the two differ in the last digits.
    """
    real = {name: item[0] if isinstance(item, tuple) else item for name, item in data.items()}
    mocks = {name: item[1] if isinstance(item, tuple) else Mock() for name, item in data.items()}
    pointers = {name: bench.share(real[name], f"{train.__name__} {name}", mocks[name]) for name in data}
    here = copy.deepcopy(models)
    there = {name: bench.scientist.remote(model) for name, model in models.items()}
    torch.manual_seed(0)
    expected = train(**here, **real)
    torch.manual_seed(0)
    found = train(**there, **pointers)
    fetched = bench.scientist.fetch(found, reason="the losses")
    assert list(fetched) == list(expected)
    for name, value in expected.items():
        torch.testing.assert_close(fetched[name].detach(), value.detach(), rtol=1e-4, atol=1e-5)
    for name, model in here.items():
        state = bench.scientist.fetch(there[name], reason="the model").state_dict()
        for key, value in model.state_dict().items():
            torch.testing.assert_close(state[key], value, rtol=1e-3, atol=1e-4)


class Digits(nn.Module):
    """mnist/MNIST_Syft_Data_Scientist.ipynb; fewer channels, and no dropout, whose draws are the owner's."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3, 1), nn.Conv2d(4, 8, 3, 1)
        self.fc1, self.fc2 = nn.Linear(8 * 12 * 12, 16), nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        x = functional.relu(self.conv2(functional.relu(self.conv1(x))))
        x = torch.flatten(functional.max_pool2d(x, 2), 1)
        return functional.log_softmax(self.fc2(functional.relu(self.fc1(x))), dim=1)


def test_mnist(bench: Bench) -> None:
    def mnist(model: nn.Module, images: Any, labels: Any) -> dict[str, Any]:
        device = torch.device("cpu")
        optimiser = torch.optim.Adadelta(model.parameters(), lr=1.0)
        scheduler = torch.optim.lr_scheduler.StepLR(optimiser, step_size=1, gamma=0.7)
        model.train()
        for batch in range(2):
            data, target = images[batch * 8 : batch * 8 + 8].to(device), labels[batch * 8 : batch * 8 + 8]
            optimiser.zero_grad()
            loss = functional.nll_loss(model(data), target)
            loss.backward()
            optimiser.step()
            scheduler.step()
        model.eval()
        with torch.no_grad():
            output = model(images)
            correct = output.argmax(dim=1, keepdim=True).eq(labels.view_as(output.argmax(1, True))).sum()
        return {"loss": loss, "correct": correct}

    torch.manual_seed(1)
    labels = choose(10, 16), Mock(bounds=(0, 9))
    compare(bench, mnist, {"model": Digits()}, {"images": draw(16, 1, 28, 28), "labels": labels})


def test_dcgan(bench: Bench) -> None:
    torch.manual_seed(2)
    generator = nn.Sequential(
        nn.ConvTranspose2d(6, 8, 4, 1, 0, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
        nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip
    discriminator = nn.Sequential(
        nn.Conv2d(1, 8, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True), nn.BatchNorm2d(8),
        nn.Conv2d(8, 1, 4, 1, 0, bias=False), nn.Sigmoid(),
    )  # fmt: skip
    noise = torch.randn(2, 4, 6, 1, 1)

    def dcgan(generator: nn.Module, discriminator: nn.Module, images: Any) -> dict[str, Any]:
        criterion = nn.BCELoss()
        of_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
        of_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
        for step in range(2):
            discriminator.zero_grad()
            label = torch.full((4,), 1.0)
            loss_real = criterion(discriminator(images).view(-1), label)
            loss_real.backward()
            fake = generator(noise[step])
            loss_fake = criterion(discriminator(fake.detach()).view(-1), label.fill_(0.0).clone())
            loss_fake.backward()
            of_d.step()
            generator.zero_grad()
            loss_g = criterion(discriminator(fake).view(-1), torch.full((4,), 1.0))
            loss_g.backward()
            of_g.step()
        return {"real": loss_real, "fake": loss_fake, "generator": loss_g}

    compare(
        bench, dcgan, {"generator": generator, "discriminator": discriminator}, {"images": draw(4, 1, 8, 8)}
    )


class Vae(nn.Module):
    """vae/VAE_Data_Scientist.ipynb, with less to hide; its noise is given, so that both draw the same."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(64, 16), nn.Linear(16, 4), nn.Linear(16, 4)
        self.fc3, self.fc4 = nn.Linear(4, 16), nn.Linear(16, 64)

    def forward(self, x: Any, noise: Any) -> Any:
        hidden = functional.relu(self.fc1(x.view(-1, 64)))
        mu, log_variance = self.fc21(hidden), self.fc22(hidden)
        z = mu + noise * torch.exp(0.5 * log_variance)
        return torch.sigmoid(self.fc4(functional.relu(self.fc3(z)))), mu, log_variance


def test_vae(bench: Bench) -> None:
    def vae(model: nn.Module, images: Any) -> dict[str, Any]:
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
        for _ in range(3):
            optimiser.zero_grad()
            made, mu, log_variance = model(images, torch.randn(8, 4))
            likelihood = functional.binary_cross_entropy(made, images.view(-1, 64), reduction="sum")
            divergence = -0.5 * torch.sum(1 + log_variance - mu.pow(2) - log_variance.exp())
            loss = likelihood + divergence
            loss.backward()
            optimiser.step()
        return {"loss": loss}

    torch.manual_seed(3)
    compare(bench, vae, {"model": Vae()}, {"images": (draw(8, 1, 8, 8), Mock(bounds=(0, 1)))})


def test_super_resolution(bench: Bench) -> None:
    torch.manual_seed(4)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 5, 1, 2), nn.ReLU(), nn.Conv2d(8, 4, 3, 1, 1), nn.ReLU(), nn.Conv2d(4, 9, 3, 1, 1),
        nn.PixelShuffle(3),
    )  # fmt: skip
    for layer in net:
        if isinstance(layer, nn.Conv2d):
            nn.init.orthogonal_(layer.weight, nn.init.calculate_gain("relu"))

    def super_resolution(model: nn.Module, small: Any, large: Any) -> dict[str, Any]:
        criterion, optimiser = nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(2):
            optimiser.zero_grad()
            loss = criterion(model(small), large)
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            psnr = 10 * torch.log10(1 / criterion(model(small), large))
        return {"loss": loss, "psnr": psnr}

    data = {"small": draw(4, 1, 6, 6), "large": draw(4, 1, 18, 18, seed=5)}
    compare(bench, super_resolution, {"model": net}, data)


class Sequence(nn.Module):
    """time_sequence_prediction, with Adam: LBFGS looks at losses."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm1, self.lstm2, self.linear = nn.LSTMCell(1, 7), nn.LSTMCell(7, 7), nn.Linear(7, 1)

    def forward(self, waves: Any, future: int = 0) -> Any:
        count = waves.size(0)
        h1, c1, h2, c2 = (torch.zeros(count, 7, dtype=torch.double) for _ in range(4))
        outputs = []
        for part in waves.split(1, dim=1):
            h1, c1 = self.lstm1(part, (h1, c1))
            h2, c2 = self.lstm2(h1, (h2, c2))
            outputs += [self.linear(h2)]
        for _ in range(future):
            h1, c1 = self.lstm1(outputs[-1], (h1, c1))
            h2, c2 = self.lstm2(h1, (h2, c2))
            outputs += [self.linear(h2)]
        return torch.cat(outputs, dim=1)


def test_time_sequence(bench: Bench) -> None:
    def time_sequence(model: nn.Module, waves: Any) -> dict[str, Any]:
        criterion, optimiser = nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=0.05)
        for _ in range(2):
            optimiser.zero_grad()
            loss = criterion(model(waves[:, :-1]), waves[:, 1:])
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            return {"loss": loss, "ahead": model(waves[:, :-1], future=3)[:, -3:]}

    torch.manual_seed(6)
    times = torch.arange(12, dtype=torch.double) + 4 * torch.arange(3, dtype=torch.double)[:, None]
    compare(bench, time_sequence, {"model": Sequence().double()}, {"waves": torch.sin(times / 5)})


class Words(nn.Module):
    """word_language_model/model.py: an LSTM between an encoder and a decoder with its weights tied."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.rnn, self.decoder = nn.Embedding(12, 8), nn.LSTM(8, 8, 2), nn.Linear(8, 12)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)

    def forward(self, words: Any, hidden: Any) -> Any:
        output, hidden = self.rnn(self.encoder(words), hidden)
        return functional.log_softmax(self.decoder(output).view(-1, 12), dim=1), hidden


class Transformer(nn.Module):
    """word_language_model/model.py: the other one, with its mask and its encoding of positions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        position, step = (
            torch.arange(6.0).unsqueeze(1),
            torch.exp(torch.arange(0, 8, 2) * (-math.log(1e4) / 8)),
        )
        encoding = torch.zeros(6, 8)
        encoding[:, 0::2], encoding[:, 1::2] = torch.sin(position * step), torch.cos(position * step)
        self.register_buffer("encoding", encoding.unsqueeze(1))
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
        self.encoder, self.decoder = nn.TransformerEncoder(layer, 2), nn.Linear(8, 12)

    def forward(self, words: Any, hidden: Any) -> Any:
        mask = torch.triu(torch.full((6, 6), float("-inf")), diagonal=1)
        seen = self.embed(words) * math.sqrt(8) + self.encoding
        return functional.log_softmax(self.decoder(self.encoder(seen, mask=mask)).view(-1, 12), dim=1), hidden


@pytest.mark.parametrize("make", [Words, Transformer])
def test_word_language_model(bench: Bench, make: type[nn.Module]) -> None:
    def language(model: nn.Module, words: Any) -> dict[str, Any]:
        criterion, rate = nn.NLLLoss(), 5.0
        hidden: tuple[torch.Tensor, ...] = (torch.zeros(2, 4, 8), torch.zeros(2, 4, 8))
        model.train()
        for step in range(2):
            data, targets = words[step * 6 : step * 6 + 6], words[step * 6 + 1 : step * 6 + 7].view(-1)
            model.zero_grad()
            hidden = tuple(one.detach() for one in hidden)
            output, hidden = model(data, hidden)
            loss = criterion(output, targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            for parameter in model.parameters():
                gradient: Any = parameter.grad
                parameter.data.add_(gradient, alpha=-rate)
        return {"loss": loss}

    language.__name__ = f"language {make.__name__}"
    torch.manual_seed(7)
    compare(bench, language, {"model": make()}, {"words": (choose(12, 13, 4), Mock(bounds=(0, 11)))})


def test_split_neural_network(bench: Bench) -> None:
    """splitnn: the data pass the first half at the owner; the scientist sees activations, sends gradients."""
    torch.manual_seed(8)
    first, second = nn.Sequential(nn.Linear(6, 5), nn.ReLU()), nn.Linear(5, 2)
    data, labels = draw(8, 6), choose(2, 8)
    pointer = bench.share(data, "split data")
    here_first, here_second = copy.deepcopy(first), copy.deepcopy(second)
    there = bench.scientist.remote(first)
    pairs = [(there, second, pointer), (here_first, here_second, data)]
    for bottom, top, x in pairs:
        optimisers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (bottom, top)]
        for _ in range(2):
            for optimiser in optimisers:
                optimiser.zero_grad()
            at_owner = bottom(x)
            activations = at_owner.get(reason="activations") if x is pointer else at_owner
            activations = activations.detach().requires_grad_()
            functional.cross_entropy(top(activations), labels).backward()
            gradient = activations.grad
            at_owner.backward(bench.scientist.remote(gradient) if x is pointer else gradient)
            for optimiser in optimisers:
                optimiser.step()
    fetched = bench.scientist.fetch(there, reason="the first half")
    torch.testing.assert_close(dict(fetched.state_dict()), dict(here_first.state_dict()))
    torch.testing.assert_close(dict(second.state_dict()), dict(here_second.state_dict()))


def test_linear_regression_and_iris(bench: Bench) -> None:
    def regression(
        model: nn.Module, iris: nn.Module, x: Any, y: Any, flowers: Any, kinds: Any
    ) -> dict[str, Any]:
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            optimiser.zero_grad()
            loss = functional.mse_loss(model(x), y)
            loss.backward()
            optimiser.step()
        of_iris = torch.optim.Adam(iris.parameters(), lr=0.02)
        for _ in range(3):
            output = iris(flowers)
            classes = nn.CrossEntropyLoss()(output, kinds)
            of_iris.zero_grad()
            classes.backward()
            of_iris.step()
        accuracy = (torch.max(output, 1)[1] == kinds).sum() / 30
        return {"loss": loss, "classes": classes, "accuracy": accuracy}

    torch.manual_seed(9)
    x = draw(10, 1, seed=10)
    models = {"model": nn.Linear(1, 1), "iris": nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))}
    kinds = choose(3, 30, seed=12), Mock(bounds=(0, 2))
    data = {"x": x, "y": 3 * x - 2, "flowers": draw(30, 4, seed=11), "kinds": kinds}
    compare(bench, regression, models, data)


def test_sklearn_logistic_regression(bench: Bench) -> None:
    draws = np.random.default_rng(13)
    x = draws.normal(size=(60, 3))
    y = (x @ [1.0, -2.0, 0.5] + draws.normal(size=60) > 0).astype(int)
    far_x = bench.share(x, "sklearn x")
    far_y = bench.share(y, "sklearn y", mock=Mock(bounds=(0, 1)))

    def fit(x: Any, y: Any, split: Any, make: Any, score: Any) -> dict[str, Any]:
        x_train, x_test, y_train, y_test = split(x, y, test_size=0.25, random_state=0)
        model = make(LogisticRegression(C=10)).fit(x_train, y_train)
        return {"coef": model.coef_, "accuracy": score(y_test, model.predict(x_test))}

    remote = bench.scientist.remote
    found = bench.scientist.fetch(
        fit(far_x, far_y, remote(train_test_split), remote, remote(accuracy_score)), reason="the fit"
    )
    expected = fit(x, y, train_test_split, lambda model: model, accuracy_score)
    np.testing.assert_allclose(found["coef"], expected["coef"], rtol=1e-6)
    assert found["accuracy"] == expected["accuracy"]


def test_cdc_mortality(bench: Bench) -> None:
    """statsmodels/CDC_Mortality: deaths of patients by traits, as a subgroup's count and a GLM."""
    draws = np.random.default_rng(14)
    frame = pd.DataFrame(
        {
            "age": draws.integers(20, 90, 80),
            "weight": draws.uniform(0.5, 2, 80),
            "sex": draws.choice(["F", "M"], 80),
            "cause": draws.choice(["heart", "lung", "other"], 80),
        }
    )
    frame["died"] = (frame.age + draws.normal(0, 20, 80) > 60).astype(int)
    mock = Mock(
        bounds={"age": (20, 90), "weight": (0.5, 2), "died": (0, 1)},
        categories={"sex": ["F", "M"], "cause": ["heart", "lung", "other"]},
    )
    pointer = bench.share(frame, "mortality", mock=mock)

    def study(data: Any, sm: Any) -> dict[str, Any]:
        men = data[(data["sex"] == "M") & (data["cause"] != "other")]
        x = sm.add_constant(data[["age", "weight"]])
        model = sm.GLM(data["died"], x, family=sm.families.Binomial()).fit()
        return {
            "men": men["age"].count(),
            "mean": (men["age"] * men["weight"]).sum() / men["weight"].sum(),
            "params": model.params,
            "interval": model.conf_int(),
            "covariance": model.cov_params(),
        }

    found = bench.scientist.fetch(study(pointer, bench.scientist.remote(sm)), reason="the study")
    expected = study(frame, sm)
    assert found["men"] == expected["men"]
    assert found["mean"] == pytest.approx(expected["mean"])
    pd.testing.assert_series_equal(found["params"], expected["params"], rtol=1e-6)
    for name in ("interval", "covariance"):
        pd.testing.assert_frame_equal(found[name], expected[name], rtol=1e-6)
