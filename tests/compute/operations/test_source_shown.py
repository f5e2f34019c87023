"""A function's source as a person reads it: nothing that does something is out of sight."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.compute.operations.function import check_letters
from duetlink.compute.operations.printer.source_shown import shown_source

HEAD = "def f(x):\n    y = x + 1\n"
END = "    return y\n"

IDLE = {
    "comments": "    #\n",
    "comments of words": "    # nothing here\n",
    "pass": "    pass\n",
    "several": "    pass; pass ;pass  # and no more\n",
    "texts": "    ''\n",
    "texts and what is behind": "    ''; 'x' # more\n",
    "letters of many bytes": "    'ж中'; 'ü'\n",
    "texts over lines": "    '''a\n  b'''\n",
    "numbers": "    0\n",
    "dots": "    ...\n",
    "empty lines with a comment now and then": "\n" * 5 + "#\n",
    "all of them": "    ''\n\n    # x\n    pass\n",
}


@pytest.mark.parametrize("idle", IDLE.values(), ids=IDLE)
def test_the_last_line_is_in_sight_behind_thousands_that_do_nothing(idle: str) -> None:
    source = HEAD + idle * 5_000 + END
    shown = shown_source(source)
    assert shown.startswith(HEAD)
    assert shown.endswith(END)
    assert len(shown.splitlines()) <= 15
    assert "lines that do nothing" in shown
    assert does(shown) == does(source)


def test_a_fold_counts_its_lines_and_keeps_the_first_ones() -> None:
    comment = "".join(f"    # line {number}\n" for number in range(1, 22))
    kept = "".join(f"    # line {number}\n" for number in range(1, 11))
    assert shown_source(HEAD + comment + END) == (
        HEAD + kept + "# \u2026 11 lines that do nothing \u2026\n" + END
    )


def test_twenty_lines_that_do_nothing_are_shown_as_they_are() -> None:
    source = HEAD + "    # why\n" * 20 + END
    assert shown_source(source) == source


def test_a_block_of_nothing_else_stays_one() -> None:
    source = "def f(x):\n    if x:\n" + "        pass\n" * 30 + "    else:\n        x = 2\n    return x\n"
    assert "        pass  # \u2026 20 lines that do nothing \u2026\n    else:" in shown_source(source)
    source = "def f(x):\n    if x:\n" + "        #\n" * 25 + "        pass\n" + "    pass\n" * 30 + END
    assert does(shown_source(source)) == does(source)


@pytest.mark.parametrize(
    "kept",
    [
        'def f(x):\n    """A text.\n' + "\n    # more\n" * 30 + '    """\n    return f.__doc__\n',
        "def f(x):\n    return '''\n" + "#\n" * 30 + "'''\n",
        "def f(x):\n    return f'''\n" + "# {x}\n" * 30 + "'''\n",
        "def f(x):\n" + "    pass; x += 1\n" * 30 + "    return x\n",
        "def f(x):\n" + "    'a'.upper()\n" * 30 + "    return x\n",
        "def f(x):\n    if x: pass\n    return (\n" + "    pass\n" * 30,  # no Python
    ],
)
def test_what_may_be_read_or_does_something_is_not_folded(kept: str) -> None:
    assert shown_source(kept) == kept


def test_a_long_source_says_at_its_top_how_it_ends() -> None:
    source = "def f(x):\n" + "    x = x\n" * 5_000 + "    y = 2\n    return y  # so\n" + "    #\n" * 3
    shown = shown_source(source)
    assert shown == (
        "# \u2026 5,006 lines, which end with \u2026\n#   x = x\n#   y = 2\n#   return y  # so\n" + source
    )


def test_a_long_source_that_is_no_python_says_the_same() -> None:
    shown = shown_source("def f(x:\n" * 200 + "    #\n")
    assert shown.startswith("# \u2026 201 lines, which end with \u2026\n#   def f(x:\n")


def test_letters_that_may_be_taken_for_others_are_codes_in_texts_and_comments() -> None:
    source = "def f(x):\n    # \u0430ge, Größe\n    return x['\u0430ge'] + x['a\ufe0fge'] + x['Größe']\n"
    assert shown_source(source) == (
        "def f(x):\n    # \\u0430ge, Größe\n    return x['\\u0430ge'] + x['a\\ufe0fge'] + x['Größe']\n"
    )


NAMED = "\\N{"  # begins a letter's name in a text, and is nothing in a raw text or in bytes


@pytest.mark.filterwarnings("ignore:invalid escape:DeprecationWarning", "ignore:invalid escape:SyntaxWarning")
@pytest.mark.parametrize(
    "line",
    [
        f'r"{NAMED}"; x = x[:1]; "}}"',
        f'b"{NAMED}"; x = x[:1]; "}}"',
        f'rb"{NAMED}"; x = x[:1]; b"}}"',
        f'r"{NAMED}" # "; x = x[:1]; "}}"\n    x = x[:1]; r"}}"',
        'r"\\\'"; x = x[:1]; "\'"',
        "u'ж'; x = x[:1]; 'ж'",
    ],
)
def test_a_line_that_does_something_is_shown_between_lines_that_do_nothing(line: str) -> None:
    assert "x = x[:1]" in does_text(HEAD + f"    {line}\n" + END)
    source = HEAD + "    # note\n" * 12 + f"    {line}\n" + "    # note\n" * 12 + END
    assert f"    {line}\n" in shown_source(source)


def test_lines_within_a_raw_text_are_no_lines_that_do_nothing() -> None:
    source = (
        f'def f(x):\n    \'Text.\'\n    r"""{NAMED}"""; y = \'}}\'\n'
        + "    a = 1\n" * 30
        + '    return x\n    # """\n    return y\n'
    )
    assert shown_source(source) == source


@pytest.mark.parametrize(
    "escape", [r"'\d'", r"'\N{DIGIT ONE}'", r"r'\N{'", r"b'\N{'", r"f'\N{DIGIT ONE}{x}'"]
)
def test_python_warns_the_owner_of_nothing_in_a_function(
    escape: str, recwarn: pytest.WarningsRecorder
) -> None:
    shown_source(HEAD + f"    y = {escape}\n" + END)
    check_letters("f", HEAD + f"    y = {escape}  # ж\n" + END)
    assert not recwarn.list


@pytest.mark.parametrize("line_end", ["\r", "\r\n"])
def test_lines_that_end_in_another_way_are_shown_as_they_are(line_end: str) -> None:
    source = HEAD + f"    # note{line_end}" * 30 + END
    assert shown_source(source).count("# note") == 30


PIECES = [
    f'r"{NAMED}',
    'b"',
    '"',
    "}",
    "'\\",
    "ж",
    "#",
    "pass",
    "''",
    "\n",
    "    ",
    ";",
    " ",
    "x = 1",
    "'''",
    "if x:",
    "else:",
    "\\",
    "(",
    ")",
    "0",
]


@pytest.mark.filterwarnings("ignore:invalid:SyntaxWarning", "ignore:invalid:DeprecationWarning")
@given(st.lists(st.sampled_from(PIECES), max_size=30), st.integers(1, 40))
def test_whatever_is_folded_does_nothing(pieces: list[str], times: int) -> None:
    source = "def f(x):\n    x\n" + "    " + "".join(pieces * times) + "\n"
    try:
        expected = does(source)
    except SyntaxError:
        return
    assert does(shown_source(source)) == expected


def does_text(source: str) -> str:
    return ast.unparse(ast.parse(source))


def does(source: str) -> str:
    """All statements that do something, by Python's parser; folds and ends stand in comments."""

    class Doing(ast.NodeTransformer):
        def generic_visit(self, node: ast.AST) -> ast.AST:
            super().generic_visit(node)
            for field, value in ast.iter_fields(node):
                if isinstance(value, list):
                    setattr(node, field, [part for part in value if not _is_idle(part)])
            return node

    return ast.dump(Doing().visit(ast.parse(source)))


def _is_idle(node: object) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
