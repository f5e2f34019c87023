"""Templates of statements, a file for each library.

`{v}` is a variable of this kind that there is already, `{v|m}` one of either, `{0}` the first of them once
more. `{=}` is a new variable, `{#}` a number, `{op}` an operator, `{[]}` a slice, `{at}` the place of a row.
The kinds are letters:

    v m i b    arrays: of floats with one axis and with two, of integers, of booleans
    s w f g    pandas: a series of numbers, one of texts, a frame, one whose row labels repeat
    p q        Polars: a frame, a series of numbers
    t u j z    tensors: with one axis and with two, of integers, without axes
    n l c      numbers, lists, texts
"""

from tests.remote.fuzzer.grammar import numpy_, pandas_, polars_, python_, sklearn_, torch_

LIBRARIES: dict[str, tuple[str, ...]] = {
    "numpy": numpy_.TEMPLATES,
    "pandas": pandas_.TEMPLATES,
    "polars": polars_.TEMPLATES,
    "torch": torch_.TEMPLATES,
    "sklearn": sklearn_.TEMPLATES,
}
PYTHON = python_.TEMPLATES
