"""A preparation as a value: equal, printed, as JSON; and what a peer may send as one."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from duetlink.data.prep import spec as spec_module
from duetlink.data.prep.checks import MAX_CATEGORIES
from duetlink.data.prep.spec import PrepSpec
from duetlink.errors import DuetError, LimitExceeded, RemoteProtocolError, SettingError
from duetlink.prep import Prep

PREP = (
    Prep()
    .missing("NA", columns=["job"])
    .drop_missing()
    .cast({"age": "int64"}, income="float64", invalid="missing")
    .one_hot("job", ["a", "b\u00e9"], unknown="ignore")
    .one_hot("kids", [0, 1])
    .scale("age", (0, 120))
    .clip("income", (0.5, 1e6))
    .split(0.75, seed=7, by="id")
    .select("age", "income")
)


def test_it_is_a_value() -> None:
    again = Prep.from_json(PREP.to_json())
    assert again == PREP
    assert hash(again) == hash(PREP)
    assert {PREP: "name"}[again] == "name"
    assert again.digest == PREP.digest
    assert PREP.select("age") != PREP
    assert Prep().one_hot("a", [0, 1]) != Prep().one_hot("a", [False, True])
    assert Prep().scale("a", (0, 1)) == Prep().scale("a", (0.0, 1.0))
    assert PrepSpec.from_json(PREP.to_json()) == PREP


def test_its_digest_and_json_stay_as_they_are() -> None:
    """Policies and ledgers name preparations by it."""
    prep = Prep().drop_missing("a").scale("a", (0, 10))
    assert prep.to_json() == (
        '{"prep":1,"steps":[{"columns":["a"],"step":"drop_missing"},'
        '{"bounds":[0,10],"column":"a","step":"scale"}]}'
    )
    assert prep.digest == "93d0a647d64e99a887cd62c529b977f8f43aae9cdf509c0dea1a093b47b3a85b"


def test_it_is_shown_as_a_table_and_as_python() -> None:
    assert PREP.table().splitlines() == [
        "1  missing       'NA', columns=['job']",
        "2  drop_missing",
        "3  cast          {'age': 'int64', 'income': 'float64'}, invalid='missing'",
        "4  one_hot       'job', ['a', 'b\\xe9'], unknown='ignore'",
        "5  one_hot       'kids', [0, 1]",
        "6  scale         'age', bounds=(0, 120)",
        "7  clip          'income', bounds=(0.5, 1000000)",
        "8  split         train=0.75, seed=7, by='id'",
        "9  select        'age', 'income'",
    ]
    assert eval(PREP.code(), {"Prep": Prep}) == PREP
    assert repr(PREP).startswith(f"Prep {PREP.digest[:12]}, 9 steps\n1  missing")


def test_what_a_person_sees_of_hostile_names_is_escaped() -> None:
    prep = Prep().select("<script>", "\u202egnol", "'); evil('")
    assert "<script>" not in prep._repr_html_()
    assert prep.code() == "Prep().select('<script>', '\\u202egnol', \"'); evil('\")"


def test_which_are_row_by_row() -> None:
    assert Prep().drop_missing().clip("a", (0, 1)).row_stable
    assert Prep().split(0.5, seed=1, by="id").row_stable
    assert not Prep().split(0.5, seed=1).row_stable
    assert not Prep().cast(a="int64").row_stable
    assert Prep().cast(a="int64", invalid="missing").row_stable
    assert not Prep().one_hot("a", ["b"]).row_stable
    assert not Prep().scale("a", within=(0, 1)).row_stable


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Prep().scale("age", (10, 0)), "give the lowest, then the highest"),
        (lambda: Prep().clip("age", (1, 1)), "give the lowest, then the highest"),
        (lambda: Prep().clip("age", (0, float("inf"))), "finite"),
        (lambda: Prep().scale("age"), "within="),
        (lambda: Prep().cast({"age": "object"}), "int64"),
        (lambda: Prep().cast({"age": "int64"}, invalid="ignore"), "missing"),
        (lambda: Prep().one_hot("job", []), "categories"),
        (lambda: Prep().one_hot("job", "abc"), "a list"),
        (lambda: Prep().one_hot("job", ["a", 1]), "all texts"),
        (lambda: Prep().one_hot("job", ["a", "a"]), "twice"),
        (lambda: Prep().one_hot("job", ["a\x00"]), "control characters"),
        (lambda: Prep().select(), "no column"),
        (lambda: Prep().select("a", "a"), "twice"),
        (lambda: Prep().split(1.5, seed=0), "between 0 and 1"),
        (lambda: Prep().split(0.5, seed=-1), "seed"),
        (lambda: Prep().split(seed=1, by="a").split(seed=2, by="a"), "one split"),
    ],
)
def test_what_cannot_be_meant_is_told_at_once(make: Any, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        make()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"prep":1}',
        '{"prep":2,"steps":[]}',
        '{"prep":true,"steps":[]}',
        '{"prep":1,"steps":{}}',
        '{"prep":1,"prep":1,"steps":[]}',
        '{"prep":1,"steps":[{"step":"eval"}]}',
        '{"prep":1,"steps":[{"step":["select"]}]}',
        '{"prep":1,"steps":[{"step":"select"}]}',
        '{"prep":1,"steps":[{"step":"select","columns":["a"],"name":"b"}]}',
        '{"prep":1,"steps":[{"step":"select","columns":"ab"}]}',
        '{"prep":1,"steps":[{"step":"select","columns":[["a"]]}]}',
        '{"prep":1,"steps":[{"step":"select","columns":{"a":1}}]}',
        '{"prep":1,"steps":[{"step":"select","columns":[1]}]}',
        '{"prep":1,"steps":[{"step":"select","columns":["\\ud800"]}]}',
        '{"prep":1,"steps":[{"step":"cast","types":[["a"]]}]}',
        '{"prep":1,"steps":[{"step":"cast","types":[["a","int64"]],"invalid":["error"]}]}',
        '{"prep":1,"steps":[{"step":"cast","types":[["a",["int64"]]]}]}',
        '{"prep":1,"steps":[{"step":"one_hot","column":"a","categories":[null]}]}',
        '{"prep":1,"steps":[{"step":"one_hot","column":"a","categories":[[1]]}]}',
        '{"prep":1,"steps":[{"step":"one_hot","column":"a","categories":[100000000000000000000]}]}',
        '{"prep":1,"steps":[{"step":"scale","column":"a","bounds":[0,NaN]}]}',
        '{"prep":1,"steps":[{"step":"scale","column":"a","bounds":[0,1e999]}]}',
        '{"prep":1,"steps":[{"step":"scale","column":"a","bounds":[0,true]}]}',
        '{"prep":1,"steps":[{"step":"scale","column":"a","bounds":[0,' + "9" * 5000 + "]}]}",
        '{"prep":1,"steps":[{"step":"scale","column":"a","bounds":[0,' + "9" * 400 + "]}]}",
        '{"prep":1,"steps":[{"step":"split","train":0.5,"seed":1.0}]}',
        '{"prep":1,"steps":' + "[" * 100_000 + "]" * 100_000 + "}",
        b'{"prep":1,"steps":[{"step":"select","columns":["\xff"]}]}',
    ],
)
def test_a_peer_sends_no_preparation(content: str | bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        PrepSpec.from_json(content)


def test_a_peer_sends_too_much() -> None:
    def refused(steps: list[dict[str, Any]]) -> None:
        with pytest.raises((LimitExceeded, RemoteProtocolError)):
            PrepSpec.from_json(json.dumps({"prep": 1, "steps": steps}))

    refused([{"step": "drop_missing"}] * 1_001)
    refused([{"step": "select", "columns": [f"{n}" for n in range(20_001)]}])
    refused([{"step": "one_hot", "column": "a", "categories": list(range(MAX_CATEGORIES + 1))}])
    refused([{"step": "one_hot", "column": "a", "categories": list(range(4_000))}] * 30)
    refused([{"step": "select", "columns": ["a" * 201]}])
    with pytest.raises(LimitExceeded):
        PrepSpec.from_json(" " * (spec_module.MAX_BYTES + 1))


def test_whatever_is_changed_in_a_preparation_it_is_read_or_refused() -> None:
    """Bytes exchanged, cut, doubled; values put elsewhere. The seed is fixed; the weekly job takes others."""
    chance = random.Random(22)
    whole = PREP.to_json().encode()
    read = 0
    for _ in range(4_000):
        content = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            start = chance.randrange(len(content))
            stop = min(len(content), start + chance.randrange(1, 12))
            other = chance.randrange(len(content))
            content[start:stop] = chance.choice(
                (
                    b"",
                    bytes([chance.randrange(256)]),
                    content[other : other + 9],
                    b"[]",
                    b"null",
                    b"-1e308",
                    b'"a"',
                )
            )
        try:
            spec = PrepSpec.from_json(bytes(content))
        except DuetError:
            continue
        read += 1
        assert PrepSpec.from_json(spec.to_json()) == spec
        spec.table()
    assert read > 10
