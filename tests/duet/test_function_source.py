"""What of a function is sent: its own text, imports for what it uses of libraries, and nothing else."""

from __future__ import annotations

import functools
import linecache
import re
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model
from scipy import stats
from sklearn.linear_model import LogisticRegression as Logistic

import duetlink
from duetlink.duet.asking.functions.source import source_of
from duetlink.errors import SettingError
from tests import turn_server

LIMIT = 18
keep: Callable[[Any], Any] = lambda function: function  # noqa: E731 - a decorator that changes nothing


def helper(x: float) -> float:
    return x


@keep
def commented(frame, low=3):
    """A text
    over lines."""
    # those who are old enough
    return np.mean(frame[frame > low])  # and no others


def test_the_text_is_as_it_was_written_without_its_decorator() -> None:
    assert source_of(commented).text == (
        "import numpy as np\n"
        "\n"
        "\n"
        "def commented(frame, low=3):\n"
        '    """A text\n'
        '    over lines."""\n'
        "    # those who are old enough\n"
        "    return np.mean(frame[frame > low])  # and no others\n"
    )


def test_a_function_within_another_is_moved_to_the_margin() -> None:
    @keep
    def inner(x):
        if x:
            return 1
        return 2

    assert source_of(inner).text == "def inner(x):\n    if x:\n        return 1\n    return 2\n"


def test_a_text_over_lines_within_another_function_stays_what_it_is() -> None:
    def inner():
        return """a
            b
        c"""

    sent: dict[str, Any] = {}
    exec(source_of(inner).text, sent)
    assert sent["inner"]() == inner() == "a\n            b\n        c"


def test_what_it_uses_of_libraries_is_imported() -> None:
    def used(x):
        model = Logistic()
        other = sklearn.linear_model.LinearRegression()
        table = pd.DataFrame({"x": [sqrt(2.0)]})
        duetlink.progress(0.5)
        return model, other, table, stats.norm, np.linalg.norm(x)

    assert source_of(used).text.split("\n\n")[0].split("\n") == [
        "from math import sqrt",
        "from sklearn.linear_model import LogisticRegression as Logistic",
        "import duetlink",
        "import numpy as np",
        "import pandas as pd",
        "import scipy.stats as stats",
        "import sklearn",
        "import sklearn.linear_model",
    ]


def test_functions_of_libraries_come_from_where_they_are_public() -> None:
    from numpy import add, mean
    from pandas import concat

    from duetlink import progress

    def used(x):
        progress(0)
        return add(mean(x), concat(x))

    assert source_of(used).text.split("\n\n")[0].split("\n") == [
        "from duetlink import progress",
        "from numpy import add",
        "from numpy import mean",
        "from pandas import concat",
    ]


def test_what_it_imports_itself_is_its_own() -> None:
    def used(x):
        import statistics
        from math import exp

        return statistics.mean(x) + exp(1)

    assert source_of(used).text.startswith("def used(x):")


def test_annotations_are_kept_and_need_not_be_there() -> None:
    def used(x: Unheard, *, y: Unheard = 3) -> Unheard:  # type: ignore[name-defined]  # noqa: F821
        z: Unheard = x  # type: ignore[name-defined]  # noqa: F821
        return z + y

    source = source_of(used)
    assert source.text.startswith("from __future__ import annotations\n\n\ndef used(x: Unheard")
    assert source.run((1,), {}) == 4


def test_inner_functions_classes_and_comprehensions_are_its_own() -> None:
    def used(rows):
        class Box:
            size = 3

            def grown(self):
                return self.size + 1

        def twice(n):
            return 2 * n

        return [twice(row) + Box().grown() for row in rows if (last := row)], (lambda a: a + last)(1)

    assert source_of(used).run(([1, 2],), {}) == ([6, 8], 3)


def test_it_may_call_itself() -> None:
    @keep
    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)

    assert source_of(factorial).run((5,), {}) == 120


def test_it_fails_with_the_lines_of_where_it_was_written() -> None:
    @keep
    def failing(x):
        y = x + 1
        return y / 0  # here

    with pytest.raises(ZeroDivisionError) as caught:
        source_of(failing).run((1,), {})
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.line) == (__file__, "return y / 0  # here")


secret = 3


def _not_sent(function: Any) -> str:
    with pytest.raises(SettingError) as caught:
        source_of(function)
    return str(caught.value)


def test_what_it_has_from_around_it_is_named() -> None:
    table = np.zeros(3)

    def uses_global(x):
        return x + LIMIT

    def uses_closure(x):
        return x + table

    def uses_default(x, low=LIMIT):
        return x

    def uses_helper(x):
        return helper(x)

    def uses_module(x):
        return turn_server.run(x)  # type: ignore[attr-defined]

    def uses_nothing(x):
        return undefined(x)  # type: ignore[name-defined]  # noqa: F821

    def uses_within(x):
        return [LIMIT for _ in x]

    assert _not_sent(uses_global) == "uses_global uses LIMIT from around it, a int; give it as an argument"
    assert (
        _not_sent(uses_closure) == "uses_closure uses table from around it, a ndarray; give it as an argument"
    )
    assert _not_sent(uses_default) == "uses_default uses LIMIT from around it, a int; give it as an argument"
    assert (
        _not_sent(uses_helper)
        == "uses_helper uses helper from around it, which is of your own; define it inside"
    )
    assert "turn_server from around it, a module of your own" in _not_sent(uses_module)
    assert _not_sent(uses_nothing) == "uses_nothing uses undefined, which is not defined"
    assert "uses LIMIT from around it" in _not_sent(uses_within)


def test_what_it_would_change_around_it_is_refused() -> None:
    count = 0

    def declares():
        global secret
        secret = 4

    def reaches():
        nonlocal count
        count += 1

    assert _not_sent(declares) == "declares declares secret as global; return it instead"
    assert "reaches cannot be taken from what is around it" in _not_sent(reaches)


class Holder:
    def method(self):
        return self


def test_kinds_of_functions_that_are_not_sent() -> None:
    async def later():
        return 1

    async def many() -> AsyncIterator[int]:
        yield 1

    def some() -> Iterator[int]:
        yield 1

    @functools.lru_cache
    def cached(x):
        return x

    @functools.wraps(helper)
    def wrapped(x):
        return x

    @keep
    @keep
    def decorated(x):
        return x

    assert "a lambda has no source" in _not_sent(lambda x: x)
    assert "later is async" in _not_sent(later)
    assert "many is async" in _not_sent(many)
    assert "some is a generator" in _not_sent(some)
    assert "can be sent, not a _lru_cache_wrapper" in _not_sent(cached)
    assert "is wrapped by a decorator" in _not_sent(wrapped)
    assert "other decorators" in _not_sent(decorated)
    assert "Holder.method is a method" in _not_sent(Holder().method)
    assert "Holder.method is part of a class" in _not_sent(Holder.method)
    assert "not a builtin_function_or_method" in _not_sent(len)
    assert "not a type" in _not_sent(Holder)


def test_a_function_whose_source_nobody_knows_is_refused() -> None:
    defined: dict[str, Any] = {}
    exec("def made(x):\n    return x\n", defined)
    assert "the source of made is not known here" in _not_sent(defined["made"])


def _typed(text: str) -> Any:
    """The function that a cell of this text defines."""
    linecache.cache["<cell>"] = len(text), None, text.splitlines(keepends=True), "<cell>"
    defined: dict[str, Any] = {}
    exec(compile(text, "<cell>", "exec"), defined)
    return next(found for name, found in defined.items() if name != "__builtins__")


def test_a_function_of_a_cell_is_known() -> None:
    assert source_of(_typed("\ndef made(x):\n    return x\n")).text == "def made(x):\n    return x\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "def f():\n    return '\u202e'\n",
            r"line 2 of f has invisible characters.* as escapes:     return '\\u202e'",
        ),
        ("def f():\n    # a\x07b\n    return 1\n", "has invisible characters"),
        ("def f():\n    # \u05d0\n    return 1\n", "has invisible characters"),
        ("def f():\n    return 1" + " " * 500 + "# here\n", "line 2 of f has 518 characters, over 500"),
        ("def f():\n" + "    # more and more\n" * 20_000 + "    return 1\n", "f has over 262,144 bytes"),
        ("def \xe4():\n    return 1\n", "is not the name of a function"),
        (
            "def f(v):\n    \u0430 = 1\n    a = v\n    return \u0430\n",
            r"line 2, column 5 of f: '\u0430' \(U\+0430, CYRILLIC SMALL LETTER A\) is neither in a text",
        ),
        ("def f(v):\n    return \uff45val(v)\n", r"line 2, column 12 of f: '\uff45' \(U\+FF45"),
        ("def f(v):\n    return v.me\u0430n()\n", "line 2, column 16 of f"),
        ("def f(v):\n    return dict(\u0430=v)\n", "line 2, column 17 of f"),
        ("def f(v):\n    return f'\xe4 {\uff45val(v)}'\n", "line 2.* of f: "),
        ('def f(v):\n    return f"""{v[\'}\']}\n{\uff45val(v)}"""\n', "of f: "),
        ("def f(v):\n    return v" + " " * 101 + "# here\n", "line 2 of f has gaps of 105 blanks"),
        ("def f(v):\n    y = 0;" + (" " * 60 + "0;") * 2 + " y = v\n", "line 2 of f has gaps of 124 blanks"),
        ("def f(v):\n    return v" + "\t" * 15 + "# here\n", "line 2 of f has gaps of 120 blanks"),
    ],
)
def test_a_text_that_a_reader_would_not_see_as_it_is_is_refused(text: str, why: str) -> None:
    assert re.search(why, _not_sent(_typed(text)))


def test_letters_beyond_ascii_are_sent_in_texts_and_comments() -> None:
    text = "def f(v):\n    # f\xfcr \u03bb\n    return f'Gr\xf6\xdfe {v}' + '\\'\xe4\\\\' + r'\\\\'\n"
    assert source_of(_typed(text)).text == text
