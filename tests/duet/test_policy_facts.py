"""Nothing that the peer alone controls lets a policy approve: tried with random programs, each once as it was
done and once with more of what the peer may say, and with random policies.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from fnmatch import fnmatchcase
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duetlink.compute.operations.canonical import Program as Canonical
from duetlink.compute.operations.canonical import Value
from duetlink.compute.operations.function import FunctionCall
from duetlink.compute.operations.steps.effects import is_listed, worst_effect
from duetlink.compute.operations.steps.trace import LoggedValue, Trace
from duetlink.compute.prep.frames import PREPARE
from duetlink.data import values
from duetlink.data.prep.spec import PrepSpec
from duetlink.duet.answering.job import Input, describe, unmade
from duetlink.duet.answering.policies.decision import decide
from duetlink.duet.answering.policies.facts import Facts
from duetlink.duet.answering.policies.policy import Policy
from duetlink.duet.objects.asset import AssetInfo

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
TAGS: dict[str, tuple[str, ...]] = {"patients": ("confidential",), "colours": ("public", "x"), "ages": ()}
VALUE = values.encode(0.5)
PREPS = PrepSpec().drop_missing(), PrepSpec().select("x")

Step = list[Any]


@dataclasses.dataclass(frozen=True)
class Program:
    """What a peer sends."""

    steps: tuple[Step, ...]
    result: int
    words: str = "float"  # about its value
    batches: int = 1  # in which it comes


# -- what a policy sees of it, by the code that a duet uses ------------------------------------------------


def facts_of(program: Program) -> Facts:
    trace = Trace(worst_effect, may_learn=False)
    size = -(-len(program.steps) // program.batches)
    for first in range(0, len(program.steps), size):
        batch = json.loads(json.dumps(program.steps[first : first + size]))
        trace.add(batch, [LoggedValue(program.words, "00")])
    asked = Canonical.recorded(trace, program.result, {"00": Value(b"", program.words, "")})
    info = unmade(asked.lineage, lambda name, revision: TAGS[name])
    made = dataclasses.replace(info, kind="float", size_bytes=VALUE.size_bytes, elements=1, group=1)
    return Facts.of(made, "Sven")


# -- random programs ---------------------------------------------------------------------------------------

WORDS = (
    *("public", "confidential", "x", "mean", "sum", "copy", "dp", "unknown", "…", "add", "patients", "*"),
    *("function mean", ".mean()", "ages.mean()", "colours", "add, copy", ""),
)
WORD = st.sampled_from(WORDS) | st.text(max_size=5)
SPECS = st.sampled_from([prep.to_json() for prep in PREPS])
METHODS = st.sampled_from([".copy", ".mean", ".sum", "numpy.asarray", "numpy.mean", "@T"])


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Steps that the room does."""
    names = draw(st.lists(st.sampled_from(sorted(TAGS)), min_size=1, max_size=2, unique=True))
    steps: list[Step] = [[number, "asset", [name, 1]] for number, name in enumerate(names, 1)]
    made = list(range(1, len(names) + 1))
    for _ in range(draw(st.integers(0, 4))):
        some = draw(st.sampled_from(made))
        match draw(st.integers(0, 5)):
            case 5:
                step: Step = [len(steps) + 1, PREPARE, [[some], draw(SPECS)]]
            case 0 | 1:
                step = [len(steps) + 1, draw(METHODS), [[some]]]
            case 2:
                step = [len(steps) + 1, "operator.add", [[some], [draw(st.sampled_from(made))]]]
            case 3:
                step = [len(steps) + 1, "operator.getitem", [[some], draw(WORD | st.integers(0, 9))]]
            case _:
                step = [len(steps) + 1, "value", [0]]
        steps.append(step)
        made.append(len(steps))
    return Program(tuple(steps), draw(st.sampled_from(made)))


FURTHER: st.SearchStrategy[list[Any]] = st.sampled_from([[], [{}], [{"frame": 1}]])


@st.composite
def refused(draw: st.DrawFn, made: list[int], id_: int) -> Step:
    """A step of a name that no list has, or that makes nothing which is asked for."""
    prefix = draw(st.sampled_from(["", ".", "@", "@=", "numpy.", "operator.", "function "]))
    operation = f"{prefix}{draw(WORD)}" or "x"
    if draw(st.integers(0, 4)) == 0:
        return [id_, PREPARE, [[draw(st.sampled_from(made))], draw(SPECS | WORD)], *draw(FURTHER)]
    if is_listed(operation):
        operation += "_nope"
    references = [[draw(st.sampled_from(made))] for _ in range(draw(st.integers(0, 2)))]
    arguments = [*references, *draw(st.lists(WORD | st.integers(0, 9), max_size=2))]
    keywords = draw(st.dictionaries(WORD, WORD | st.sampled_from([[number] for number in made]), max_size=2))
    return [
        id_,
        "nope" if operation in ("asset", "value", "drop", "grad") else operation,
        arguments,
        keywords,
    ]


@st.composite
def mutated(draw: st.DrawFn, base: Program) -> Program:
    """The same, done in the same way; the peer says more, in other words and other numbers."""
    steps: list[Step] = []
    next_id = 1000
    for step in base.steps:
        steps.append(step)
        made = [known[0] for known in steps if known[1] != "drop"]
        for _ in range(draw(st.integers(0, 1))):
            steps.append(draw(refused(made, next_id)))
            next_id += 1
        if draw(st.integers(0, 7)) == 0:
            steps.append([0, "drop", [next_id + 5000]])
    scale = draw(st.sampled_from([1, 3, 1 << 20]))
    steps = [_renumbered(step, scale) for step in steps]
    return Program(tuple(steps), base.result * scale, draw(WORD), draw(st.integers(1, len(steps))))


def _renumbered(step: Step, scale: int) -> Step:
    def other(argument: Any) -> Any:
        return [argument[0] * scale] if type(argument) is list else argument

    if step[1] in ("asset", "value", "drop"):
        return [step[0] * scale, *step[1:]]
    keywords = {name: other(argument) for name, argument in (step[3] if len(step) > 3 else {}).items()}
    return [step[0] * scale, step[1], [other(argument) for argument in step[2]], keywords]


# -- random policies ---------------------------------------------------------------------------------------


def pool(action: str, seed: int, *further: str, count: int = 200) -> list[Policy]:
    """Policies of all kinds. Not drawn with each program: to look at all of these takes less time."""
    random = Random(seed)

    def patterns() -> tuple[str, ...]:
        words = [random.choice(WORDS) for _ in range(random.choice([0, 0, 1, 1, 2]))]
        return tuple(random.choice(["{}", "{}", "{}*", "*{}*", "*"]).format(word) for word in words)

    found = []
    for _ in range(count):
        further_patterns = [name for name in further if name != "prep"]
        fields: dict[str, Any] = {name: patterns() for name in ("tags", "operations", *further_patterns)}
        fields["assets"] = patterns() if random.random() < 0.3 else ()
        fields["min_group"] = random.choice([None, None, None, 1, 5])
        fields["max_elements"] = random.choice([None, None, 1])
        if "lineage" in further:
            fields["no_other_tags"] = random.random() < 0.3
        if "prep" in further:
            fields["prep"] = random.choice([PREPS[:1], PREPS[1:], PREPS])
        found.append(Policy(action, **fields))
    return found


APPROVING = [
    *pool("approve", 1, "lineage", count=300),
    *pool("approve", 3, "prep", count=30),
    *(Policy("approve", prep=prep) for prep in PREPS),
]
# A denial by code, or by a set of tags and no others, is evaded by other code and other objects: SECURITY.md
DENYING = [*pool("deny", 2), *(Policy("deny", prep=prep) for prep in PREPS)]
MANY = settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))


@MANY
@given(data=st.data())
def test_what_the_peer_says_approves_nothing_and_evades_no_denial(data: st.DataObject) -> None:
    base = data.draw(programs())
    more = data.draw(mutated(base))
    before, after = facts_of(base), facts_of(more)
    for policy in APPROVING if before.assets else ():  # else it is the peer's own
        if decide([policy], after, {}, NOON).action == "approve":
            assert decide([policy], before, {}, NOON).action == "approve", policy
    for policy in DENYING:
        if decide([policy], before, {}, NOON).action == "deny":
            assert decide([policy], after, {}, NOON).action == "deny", policy


def test_the_policies_tried_match_often_enough() -> None:
    program = Program(([1, "asset", ["colours", 1]], [2, ".copy", [[1]]], [3, ".mean", [[2]]]), 3)
    facts = facts_of(program)
    assert sum(decide([policy], facts, {}, NOON).action == "approve" for policy in APPROVING) >= 10
    assert sum(decide([policy], facts, {}, NOON).action == "deny" for policy in DENYING) >= 20


@pytest.mark.parametrize("name", TAGS)
def test_an_object_that_is_asked_for_as_a_result_is_no_result_of_operations(name: str) -> None:
    facts = facts_of(Program(([1, "asset", [name, 1]],), 1))
    for policy in APPROVING:
        if decide([policy], facts, {}, NOON).action == "approve":
            assert not policy.operations
            assert all(any(fnmatchcase(tag, pattern) for tag in TAGS[name]) for pattern in policy.tags)


@settings(max_examples=50, deadline=None)
@given(name=WORD.filter(str.isidentifier))
def test_the_name_of_a_function_is_no_tag_and_approves_nothing(name: str) -> None:
    patients = AssetInfo("patients", 1, "numpy.ndarray", "", 8, tags=("confidential",))
    mine: Any = SimpleNamespace(info=patients)
    info = describe(
        name,
        f"def {name}(v):\n    return v\n",
        FunctionCall([[0]], {}),
        (Input(mine.info),),
        lambda name, revision: patients.tags,
    )
    assert info.tags == info.common_tags == ("confidential",)
    facts = Facts.of(info, "Sven")
    assert {decide([policy], facts, {}, NOON).action for policy in APPROVING} == {"wait"}


FIRST, OTHER = (prep.to_json() for prep in PREPS)
ASSET: Step = [1, "asset", ["patients", 1]]


@pytest.mark.parametrize(
    ("steps", "why_not"),
    [
        ([[2, PREPARE, [[1], FIRST]]], ""),
        ([[2, PREPARE, [[1], FIRST]], [3, ".mean", [[2]]]], ""),
        ([[2, PREPARE, [[1], FIRST.replace(":", " : ")]]], ""),
        ([[2, PREPARE, [[1], FIRST]], [3, PREPARE, [[2], FIRST]]], ""),
        ([], "used without a preparation"),
        ([[2, ".mean", [[1]]]], "used without a preparation"),
        ([[2, ".copy", [[1]]], [3, PREPARE, [[2], FIRST]]], "used without a preparation"),
        ([[2, PREPARE, [[1], OTHER]]], f"by the preparation {PREPS[1].digest[:12]}, not only by"),
        ([[2, PREPARE, [[1], OTHER]], [3, PREPARE, [[2], FIRST]]], "by the preparation"),
        ([[2, PREPARE, [[1], FIRST]], [3, "operator.add", [[2], [1]]]], "used without a preparation"),
        ([[2, PREPARE, [[1], FIRST, 0]]], "used without a preparation"),
        ([[2, PREPARE, [[1]], {"spec": FIRST}]], "used without a preparation"),
        ([[2, PREPARE, [[1], FIRST], {"spec": OTHER}]], "used without a preparation"),
        ([[2, PREPARE, [[1], "{}"]]], "used without a preparation"),
        ([[2, "value", [0]], [3, PREPARE, [[2], FIRST]]], "no preparation of an object made it"),
        (
            [[2, "value", [0]], [3, PREPARE, [[2], FIRST]], [4, "operator.add", [[3], [1]]]],
            "used without a preparation",
        ),
    ],
)
def test_a_policy_that_names_a_preparation_approves_what_was_made_by_exactly_that(
    steps: list[Step], why_not: str
) -> None:
    program = Program((ASSET, *steps), steps[-1][0] if steps else 1)
    decision = decide([Policy("approve", prep=PREPS[0])], facts_of(program), {}, NOON)
    assert decision.action == ("wait" if why_not else "approve"), decision
    assert why_not in decision.verdicts[0].why_not


def test_more_preparations_than_are_read_leave_a_result_unprepared() -> None:
    preps = [PrepSpec().clip("x", (0, number + 1)) for number in range(101)]
    steps = [[number + 2, PREPARE, [[number + 1], prep.to_json()]] for number, prep in enumerate(preps)]
    facts = facts_of(Program((ASSET, *steps), 102))
    assert len(facts.preparations) == 101
    assert facts.preparations[0] == ""
    assert decide([Policy("approve", prep=preps)], facts, {}, NOON).action == "wait"


def test_what_a_function_makes_of_what_was_prepared_is_not_prepared() -> None:
    patients = AssetInfo("patients", 1, "pandas.DataFrame", "", 8)
    mine: Any = SimpleNamespace(info=patients)
    info = describe(
        "f",
        "def f(v):\n    return v\n",
        FunctionCall([[0]], {}),
        (Input(mine.info),),
        lambda name, revision: patients.tags,
    )
    facts = Facts.of(info, "Sven")
    assert decide([Policy("approve", prep=PREPS[0], code=facts.code)], facts, {}, NOON).action == "wait"
