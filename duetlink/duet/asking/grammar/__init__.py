"""Parsers for texts and expressions of other libraries; they give operations of the allow-lists.

A text such as `frame.query("age > 60")` and an expression such as `pl.col("age") > 60` are small programs for
another library. They are parsed at the scientist, and only the resulting operations are sent.

Nouns:

- text: the argument of `query` and `eval` of pandas (`frame_text.py`, `frame_evaluation.py`).
- formula: a model in Wilkinson's notation, `y ~ a + C(b)` (`formula_text.py` and the files beginning with
  `formula_`). A *term* is a product of *factors*; a categorical factor has *levels*, and a *contrast* says
  how levels become columns of numbers.
- expression: a Polars expression, read from its JSON (the files beginning with `polars_`).
- tree: nested operations that a parser has made (`call.ParsedCall`).
- reader: evaluates a syntax tree with pointers and plain numbers (`syntax_tree.TreeReader`).

Example. `frame.query("age > 60")` parses the text with Python's parser to the comparison of a name and a
number. The reader takes `frame["age"]`, which is a recorded step, and `60`, and records `operator.gt`. The
last step is `frame[…]` with that condition. Anything that no parser knows, such as `__import__('os')`, raises
OperationRefused and says what to write instead.
"""
