"""Every lesson, played in real kernels: what comes of it, and that nothing has left but what was approved."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools.demo.played import LESSONS, NOTEBOOKS, play, play_by_command

pytestmark = pytest.mark.slow


@pytest.fixture
def lesson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Copies a lesson, to be played in the copy."""
    # several kernels share few cores, and torch's threads wait for each other by spinning
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def lesson(name: str) -> Path:
        hidden = shutil.ignore_patterns(".*")
        return Path(shutil.copytree(NOTEBOOKS / name, tmp_path / name, ignore=hidden))

    return lesson


def test_all_of_them_are_here() -> None:
    tested = {"1-basics", "2-statistics", "3-images", "4-two-owners", "5-function", "6-private"}
    tested |= {"7-group", "8-ddp", "9-private-training", "12-preparation", "13-two-hands", "14-hostile"}
    assert set(LESSONS) == tested


def test_basics(lesson: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUETLINK_ONLY", "tcp,channel")
    played = play_by_command(lesson("1-basics"))
    said = played.text("scientist")
    assert "the owner says: what do you need it for?" in said
    assert "mean age: 40.1 years (the mock said 47.9)" in said
    assert said.count("no single donor's age leaves") == 2
    assert "(3000, 3000) float64 here" in said
    for side in (said, played.text("owner")):
        shares = re.findall(r"^(\d0-\d9) +(0\.\d{4})$", side, re.MULTILINE)
        assert shares == [
            ("20-29", "0.3400"),
            ("30-39", "0.1025"),
            ("40-49", "0.1400"),
            ("50-59", "0.2150"),
            ("60-69", "0.1000"),
            ("70-79", "0.0425"),
        ]
    assert played.left() == [
        ("mean age of donors, for table 1 of our report", 29),
        ("age groups of donors, for figure 1", 192),
        ("see how fast the link is", 72_000_064),
    ]
    lines = played.told.splitlines()
    assert ["path", "for", "arrays", "tcp"] in [line.split() for line in lines]
    asked = [line for line in lines if re.search(r" (approved|denied)", line)]
    assert any("ages.mean()" in line and "just curious" in line and "denied" in line for line in asked)
    assert any("ages.mean()" in line and "mean age of" in line and "approved" in line for line in asked)
    assert any("ages[0]" in line and "denied" in line and "policy" in line for line in asked)
    assert [(line.split()[0], line.split()[-1]) for line in lines if "→" in line] == [
        ("mock", "inline"),
        ("ages.mean()", "inline"),
        ("result", "inline"),
        ("scan", "tcp"),
        ("report", "inline"),
    ]


def test_statistics(lesson: Callable[[str], Path]) -> None:
    played = play(lesson("2-statistics"))
    said = played.text("scientist")
    assert "the clinic says: the smallest group has 2 patients; make groups of ten or more" in said
    for row in (r"under 25 +109\.3 +3\.8 +188", r"25 to 30 +165\.0 +5\.9 +155", r"over 30 +213\.3 +7\.5 +99"):
        assert re.search(row, said)
    assert "R² = 0.51" in said
    # the line: at a body mass index of 16 and of 44
    assert re.search(r"16 +94\.57\d+\n44 +249\.89\d+", said)
    assert "it may be made of 2 rows, fewer than 10" in played.text("owner")
    left = played.left()
    assert [reason for reason, _ in left] == [
        "progression by body mass index",
        "which measurements go along with progression? for figure 2",
        "units of figure 2",
    ]
    assert sum(size_bytes for _, size_bytes in left) < 5_000  # of a table with 29 kB


def test_images(lesson: Callable[[str], Path]) -> None:
    played = play(lesson("3-images"))
    said = played.text("scientist")
    assert "the archive says: pictures stay here: train on them, and ask how it goes" in said
    assert "Expected input batch_size (100) to match target batch_size (99)." in said
    losses = [float(loss) for loss in re.findall(r"epoch \d: loss (\d\.\d\d)", said)]
    # torch's kernels differ by machine in the last digit, and training makes more of it
    assert losses == pytest.approx([1.57, 0.46, 0.24, 0.18], abs=0.2)
    there, here = (float(percent) for percent in re.findall(r"([\d.]+)% of (?:the archive's|my own)", said))
    assert there > 90
    assert here > 90
    left = played.left()
    assert [reason for reason, _ in left] == [
        *(f"mean loss of epoch {number}" for number in range(1, 5)),
        "accuracy on 200 pictures that were not trained on",
        "the trained network: four tensors, for our scanner",
    ]
    assert sum(size_bytes for _, size_bytes in left) < 10_000  # of pictures with 384 kB


def test_two_owners(lesson: Callable[[str], Path]) -> None:
    played = play(lesson("4-two-owners"))
    said = played.text("scientist")
    assert "the north says: that is a patient; ask for sums over all of them" in said
    assert "the south says: single patients stay here" in said
    assert "results of two owners meet here, after get()" in said
    assert "mean radius of all 431 tumours: 14.16 ± 3.61" in said
    accuracy = re.search(r"([\d.]+)% of my own 138 cases", said)
    assert accuracy is not None
    assert float(accuracy[1]) > 96
    for owner in ("north", "south"):
        found = re.search(r"([\d.]+)% of our \d+ findings are right", played.text(f"owner-{owner}"))
        assert found is not None
        assert float(found[1]) > 93
        assert played.left(owner) == [
            ("scale of the features", 376),
            *((f"round {number} of 6 of our common model", 260) for number in range(1, 7)),
        ]


def test_function(lesson: Callable[[str], Path]) -> None:
    played = play(lesson("5-function"))
    said = played.text("scientist")
    assert "is not known here: ask for it with .get(reason=…), or decide by its mock" in said
    assert "the sleep lab says: those are five people; ask for something about all of them" in said
    assert "-4.2 minutes with tea, p = 0.047" in said
    assert "3,000 draws: p = 0.047 ± 0.004" in said
    assert "-6.7 minutes with tea, p = 0.002" in said
    assert "the sleep lab says: one look at each wave is what we agreed on" in said
    assert "-result = shuffle_test(trial, seed=1)\n+result = shuffle_test(trial, seed=2)" in played.text(
        "owner"
    )
    assert played.left() == [
        ("what the function prints, and its progress", 190),
        ("does the tea help?", 512),
        ("and in the second wave?", 512),
    ]


def test_private(lesson: Callable[[str], Path]) -> None:
    played = play(lesson("6-private"))
    said, own = played.text("scientist"), played.text("owner")
    assert "the hospital says: exact figures stay here; ask for one with noise: .dp(epsilon=…)" in said
    assert "np.float64(42715.12)" in own
    assert "42715.1" not in said  # what has noise is a whole number, which may by chance be near
    true = {"all": 42_715, "care": 38_307, "lab": 52_480, "office": 43_420}
    for name, mean in true.items():
        row = re.search(rf"^{name} +([\d.]+) +([\d.]+)$", said, re.MULTILINE)
        assert row is not None
        # what it is off by at most 19 times out of 20; three times that, with Laplace's tails, once in 8,000
        assert float(row[1]) == pytest.approx(mean, abs=3 * float(row[2]))
    assert "the release asks for epsilon 0.5, and 0.15 is left of the 1 for staff" in said
    assert "epsilon 1.0, 0.05 left" in own
    assert [reason for reason, _ in played.left()] == [
        "mean salary",
        "size of departments",
        *(f"mean salary, {name}" for name in ("care", "lab", "office")),
        "spread of salaries",
        "median salary",
    ]


def test_group(lesson: Callable[[str], Path]) -> None:
    played = play(lesson("7-group"))
    said = {name: played.text(f"member-{name}") for name in ("ann", "ben", "cal", "dee")}
    for name, alone in (("ann", 0), ("ben", 1), ("cal", 2), ("dee", 2)):
        found = re.search(r"alone: \[(.*)\]", said[name])
        assert found is not None
        right = [abs(float(number) - true) < 0.1 for number, true in zip(found[1].split(), TRUE, strict=True)]
        assert [index for index in range(3) if right[index]] == [alone]
    weights = {name: re.findall(r"weights: \[(.*)\]", text) for name, text in said.items()}
    assert {name: len(each) for name, each in weights.items()} == {"ann": 3, "ben": 3, "cal": 1, "dee": 1}
    assert weights["ann"] == weights["ben"]  # the same bits
    assert weights["cal"] == weights["ann"][:1]
    assert weights["dee"] == weights["ann"][-1:]
    assert [float(number) for number in weights["dee"][0].split()] == pytest.approx(TRUE, abs=0.1)
    for name in ("ann", "ben", "dee"):
        assert "epoch 3 with ann, ben, dee" in said[name].replace("ben, ann", "ann, ben")
    assert "<Group closed: this side closed the group>" in said["cal"]
    ends = [line.split() for line in played.told.splitlines() if line.strip().startswith(("0", "1", "2"))]
    assert {"member-ann", "member-ben", "member-dee"} <= {line[1] for line in ends if len(line) > 1}
    averages = [entry for entry in played.audit if entry["kind"] == "group" and entry["name"] == "average"]
    assert len(averages) == 5 * 3 + 5 * 2 + 5 * 3
    assert {entry["size_bytes"] for entry in averages} == {24}  # three numbers, and no plant


def test_ddp(lesson: Callable[[str], Path]) -> None:
    played = play(lesson("8-ddp"))
    north, south = (
        re.findall(r"([\d.]+)% right; weights (\w{12})", played.text(f"member-{name}"))
        for name in ("north", "south")
    )
    assert len(north) == 2
    assert north == south  # the same bits, with whole gradients and with compressed ones
    assert all(float(share) > 75 for share, _ in north)
    assert "25% of the bytes" in played.text("member-north")


TRUE = [2.0, -1.0, 0.5]  # weights of light, water and warmth


def test_private_training(lesson: Callable[[str], Path]) -> None:
    played = play(lesson("9-private-training"))
    said, own = played.text("scientist"), played.text("owner")
    plain = re.search(r"without noise: accuracy 0\.\d\d, attack (0\.\d\d)", own)
    assert plain is not None
    table = re.findall(r"^\d +([\d.]+) +([\d.]+) +([\d.]+)$", own, re.MULTILINE)
    epsilons, accuracies, attacks = (list(map(float, column)) for column in zip(*table, strict=True))
    assert epsilons == [0.59, 1.34, 3.26, 9.55]
    assert accuracies[3] > accuracies[0]
    assert max(attacks[:3]) < 0.6 < float(plain[1])  # a coin is right 0.5 of the time
    assert "it claims: epsilon 3.27 at delta 0.0001" in own
    assert "budget: epsilon 4, 0.73 left" in own
    assert "epsilon 3.27 at delta 0.0001, and epsilon 0.73 is left for 'digits'" in own
    accuracy = re.search(r"accuracy: (0\.\d\d)", said)
    assert accuracy is not None
    assert float(accuracy[1]) > 0.4
    assert "the archive says: the budget is spent" in said
    assert [reason for reason, _ in played.left()] == ["a first model"]


def test_preparation(lesson: Callable[[str], Path]) -> None:
    played = play(lesson("12-preparation"))
    said, own = played.text("scientist"), played.text("owner")
    assert "equal: True" in own
    assert "row by row, and no row can make it fail: False" in own
    assert "but for categories that nobody declared: True" in own
    assert re.search(r"\d+ batches; the first: \(4096, 6\) rows, \(4096,\) wages", own)
    assert re.search(r"off by \d+ on average, for an epsilon of 1\.10", own)
    assert "has an item in no declared category: declare it" in own
    assert re.search(r"clip +'wage', bounds=\(\d+, [1-9]\d{3}\)", own)
    assert "one_hot       'work', ['none', 'own', 'private', 'public'], unknown='ignore'" in own
    # what the owner reads before the yes is the whole preparation
    assert (
        own.count("census.prep(Prep().drop_missing().one_hot('work', ['private', 'public', 'own', 'none']")
        == 2
    )
    assert "the owner says: people do not leave, prepared or not; ask for means" in said
    assert re.search(r"work=private +0\.\d+", said)
    # nobody approved these: the policy knows the preparation
    assert re.search(r"^mean wage: \d+$", said, re.MULTILINE)
    assert [reason for reason, _ in played.left()] == ["means of those to train with", "the mean wage of all"]


def test_two_hands(lesson: Callable[[str], Path]) -> None:
    played = play(lesson("13-two-hands"))
    said, own = played.text("scientist"), played.text("owner")
    # the owner's cap holds for what the scientist has chosen: raw, and what half of the zeros leave
    raw, auto = (float(s) for s in re.findall(r"^layer [12]: 48 MB in (\d+\.\d) s", said, re.MULTILINE))
    assert raw > 3.6  # 48 MB at 12 MB/s
    assert auto < raw
    paused = re.search(r"^paused at (\d+)%; two seconds later (\d+) bytes more$", said, re.MULTILINE)
    assert paused is not None
    assert 0 < int(paused[1]) < 100
    assert int(paused[2]) == 0
    assert "arrived: (12000000,)" in said
    assert re.search(r"^\d\d MB of 144 MB were kept off the wire$", own, re.MULTILINE)
    assert [reason for reason, _ in played.left()] == ["to see how fast it comes"] * 2 + ["to pause it"]


def test_a_hostile_scientist_gets_nothing(lesson: Callable[[str], Path]) -> None:
    played = play(lesson("14-hostile"))
    said, own = played.text("scientist"), played.text("owner")
    assert "salaries: [0. 0. 0. 0. 0. 0. 0. 0. 0. 0. 0. 0.]" in said
    assert "the same as without salaries: True" in said
    assert f"ages: {[None] * 12}" in said
    assert "the same as without ages: True" in said
    assert "what the owner saw: True what is beneath: [0]" in said
    assert f"told: {['pending'] * 7}" in said
    assert "{'denied: single people do not leave'}" in said
    assert "result of 183 steps on staff failed on the real data; its owner can tell more\n" in said
    assert f"told so far: {['pending'] * 7}" in own
    # the owner sees all of it: no object in the code of the first, and where and how others failed
    assert "rows of yours in each number: none" in own
    assert re.search(r"^4: value_1\[staff\[\"age\"\]\[0\] >> 0 & 1 \^ \d\]: ", own, re.MULTILINE)
    assert own.count(": IndexError in step 8, operator.getitem") in range(1, 7)
    assert re.search(r"^it failed here: IndexError in step \d+, operator.getitem$", own, re.MULTILINE)
    for side in (said, own):
        leaked = re.findall(r" (True|False) *$", side.partition("would have told")[2], re.MULTILINE)
        assert leaked[:5] == ["False"] * 5
    assert [reason for reason, _ in played.left()] == [
        "mean salaries, for table 1",
        "how my model sees my points",
        "random numbers for my simulation",
        "how many bonuses are missing?",
    ]
