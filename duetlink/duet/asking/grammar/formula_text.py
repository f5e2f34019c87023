"""Formulas in Wilkinson's notation, `y ~ a * b + C(c) - 1`, read into lists of terms.

The grammar and its meaning are those of patsy (https://patsy.readthedocs.io, *How formulas work*), which
statsmodels uses, so that terms come in the same order and with the same names: G. N. Wilkinson, C. E. Rogers,
*Symbolic description of factorial models*, 1973. What stands between its operators, such as `np.log(x)`, is
kept as text, with patsy's spaces; formula_factor.py reads that.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from duetlink.errors import OperationRefused

MAX_TEXT = 5_000  # characters
MAX_DEPTH = 50  # of parentheses
MAX_TERMS = 200
MAX_FACTORS = 8  # of one term: the coding looks at each of their subsets, two by two
MAX_NODES = 1_000  # of one factor
MAX_INNER_DEPTH = 50
BEFORE = "make it a column before: frame = frame.assign(z=…), and name z in the formula"
Term = tuple[str, ...]  # its factors; the intercept has none
_BINARY = {"+": 100, "-": 100, "*": 200, "/": 200, ":": 300, "**": 500}
_UNARY = 100
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
_SHORT = ("+", "-", "*", "/", "%", "&", "^", "|", "<", ">")
_BOTH = frozenset((*_SHORT, "==", "<>", "!=", "<=", ">=", "<<", ">>", "**", "//"))  # with spaces around them
_OBJECTS = (tokenize.NAME, tokenize.NUMBER, tokenize.STRING)

_Token = tuple[int, str]


class Formula(NamedTuple):
    """Both sides of a formula; `left` is empty where there is none."""

    left: tuple[Term, ...]
    right: tuple[Term, ...]


class _Expression(NamedTuple):
    intercept: bool  # asked for
    removed: bool  # asked not to be there
    terms: tuple[Term, ...]
    literal: str = ""  # 0 or 1, where that is all


def parsed(text: str) -> Formula:
    """The terms of a formula. Raises OperationRefused: it is none, or too large; the message says where."""
    if not isinstance(text, str):
        raise OperationRefused(f"a formula is a text, not a {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise OperationRefused(f"a formula of {len(text):,} characters is over {MAX_TEXT:,}")
    tokens = _tokens(text)
    tildes = [at for at, (_, token) in enumerate(tokens) if token == "~" and _depth(tokens[:at]) == 0]
    if len(tildes) > 1:
        raise OperationRefused(f"{text!r} has more than one ~")
    at = tildes[0] if tildes else -1
    if at == len(tokens) - 1 and tokens:
        raise OperationRefused(f"{text!r} has nothing after ~; a constant alone is 1")
    left = _side(tokens[:at], text) if at > 0 else _Expression(False, True, ())
    right = _side(tokens[at + 1 :], text) if tokens[at + 1 :] else _Expression(False, False, ())
    return Formula(
        ((),) * left.intercept + left.terms,
        ((),) * (not right.removed) + right.terms,
    )


def _tokens(text: str) -> list[_Token]:
    try:
        found = [
            (kind, token)
            for kind, token, *_ in tokenize.generate_tokens(
                io.StringIO(text.replace("\n", " ").strip()).readline
            )
        ]
    except (tokenize.TokenError, SyntaxError) as error:
        raise OperationRefused(f"{text[:200]!r} is no formula: {error.args[0]}") from None
    skipped = (tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT)
    if any(kind in (tokenize.ERRORTOKEN, tokenize.COMMENT) for kind, _ in found):
        raise OperationRefused(f"{text[:200]!r} is no formula: it has a comment, or a text that does not end")
    return [(kind, token) for kind, token in found if kind not in skipped]


def _depth(tokens: Iterable[_Token]) -> int:
    return sum((token in _OPENING) - (token in _CLOSING) for _, token in tokens)


def _side(tokens: Sequence[_Token], text: str) -> _Expression:
    reader = _Side(tokens, text)
    made = reader.expression(0)
    if reader.token:
        raise reader.refusal()
    return made


class _Side:
    """Reads one side by the precedence of its operators, which all bind to the left."""

    def __init__(self, tokens: Sequence[_Token], text: str) -> None:
        self._tokens = tokens
        self._text = text
        self._at = 0
        self._open = 0

    @property
    def token(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def refusal(self) -> OperationRefused:
        where = f"at {self.token!r}" if self.token else "at its end"
        return OperationRefused(f"{self._text!r} is no formula: {where} something else is wanted")

    def expression(self, least: int) -> _Expression:
        made = self._operand()
        while (binds := _BINARY.get(self.token, -1)) >= max(least, 0):
            sign = self.token
            self._at += 1
            if sign == "**":
                made = self._power(made)
                continue
            made = self._joined(sign, made, self.expression(binds + 1))
        return made

    def _operand(self) -> _Expression:
        token = self.token
        self._open += 1
        if self._open > MAX_DEPTH:
            raise OperationRefused(f"a formula has at most {MAX_DEPTH} parentheses within each other")
        try:
            if token in ("+", "-"):
                self._at += 1
                made = self.expression(_UNARY + 1)
                return made._replace(literal="") if token == "+" else self._negated(made.literal)
            if token == "(":
                self._at += 1
                made = self.expression(0)
                if self.token != ")":
                    raise self.refusal()
                self._at += 1
                return made
            return self._factor()
        finally:
            self._open -= 1

    def _negated(self, operand: str) -> _Expression:
        if operand == "0":
            return _Expression(True, False, ())
        if operand == "1":
            return _Expression(False, True, ())
        raise OperationRefused(f"{self._text!r}: only 0 and 1 have a minus before them")

    def _factor(self) -> _Expression:
        """What Python is to work out, up to an operator or parenthesis that is not within it."""
        first, depth = self._at, 0
        while self.token and (depth or (self.token not in _BINARY and self.token not in ("~", ")"))):
            depth += (self.token in _OPENING) - (self.token in _CLOSING)
            if depth < 0:
                raise self.refusal()
            self._at += 1
        if depth or self._at == first:
            raise self.refusal()
        code = _spaced(self._tokens[first : self._at])
        tree(code)
        if code in ("0", "1"):
            return _Expression(code == "1", code == "0", (), code)
        if code[0].isdigit() or code[0] == ".":
            raise OperationRefused(f"{self._text!r}: of numbers a formula has 0, 1 and powers")
        return _Expression(False, False, ((code,),))

    def _joined(self, sign: str, left: _Expression, right: _Expression) -> _Expression:
        left = left._replace(literal="")
        if sign == "+":
            if right.literal == "0":
                return _Expression(False, True, left.terms)
            terms = _unique(left.terms + right.terms)
            return _Expression(True, False, terms) if right.intercept else left._replace(terms=terms)
        if sign == "-":
            if right.literal == "0":
                return _Expression(True, False, left.terms)
            gone = {frozenset(term) for term in right.terms}
            terms = tuple(term for term in left.terms if frozenset(term) not in gone)
            return _Expression(False, True, terms) if right.intercept else left._replace(terms=terms)
        if sign == "*":
            both = self._interaction(left, right)
            return _Expression(False, False, _unique(left.terms + right.terms + both.terms))
        if sign == "/":
            whole = _unique((tuple(factor for term in left.terms for factor in term),))
            both = self._interaction(left._replace(terms=whole), right)
            return _Expression(False, False, _unique(left.terms + both.terms))
        return self._interaction(left, right)

    def _interaction(self, left: _Expression, right: _Expression) -> _Expression:
        if left.intercept or right.intercept:
            raise OperationRefused(f"{self._text!r}: the intercept has no interaction with anything")
        if len(left.terms) * len(right.terms) > MAX_TERMS:
            raise OperationRefused(f"a formula has at most {MAX_TERMS} terms")
        return _Expression(False, False, _unique(one + two for one in left.terms for two in right.terms))

    def _power(self, left: _Expression) -> _Expression:
        text = self.token
        self._at += 1
        if not (text.isascii() and text.isdigit() and int(text[:9]) > 0):
            raise OperationRefused(f"{self._text!r}: a power is a positive integer")
        if left.intercept:
            raise OperationRefused(f"{self._text!r}: the intercept has no interaction with anything")
        terms, product = left.terms, left
        # (a + b)**100 is (a + b)**2
        for _ in range(1, min(len(left.terms), int(text[:9]), MAX_FACTORS + 1)):
            product = self._interaction(left, product)
            terms += product.terms
        return _Expression(False, False, _unique(terms))


def _unique(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Each term once, and each factor once in it; their order does not make another term."""
    found: dict[frozenset[str], Term] = {}
    for term in terms:
        factors = tuple(dict.fromkeys(term))
        if len(factors) > MAX_FACTORS:
            raise OperationRefused(f"a term has at most {MAX_FACTORS} factors")
        found.setdefault(frozenset(factors), factors)
    if len(found) > MAX_TERMS:
        raise OperationRefused(f"a formula has at most {MAX_TERMS} terms")
    return tuple(found.values())


def tree(code: str) -> ast.expr:
    """The syntax tree of a factor. Raises OperationRefused: it is no expression, or too large."""
    try:
        found = ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        what = error.msg if isinstance(error, SyntaxError) else type(error).__name__
        raise OperationRefused(f"{code[:200]!r} cannot be read ({what})") from None
    level: list[ast.AST] = [found]
    depth = nodes = 0
    while level:
        depth += 1
        nodes += len(level)
        if depth > MAX_INNER_DEPTH or nodes > MAX_NODES:
            raise OperationRefused(
                f"a factor of over {MAX_NODES:,} parts, or {MAX_INNER_DEPTH} within each other, is too "
                f"large; {BEFORE}"
            )
        level = [part for node in level for part in ast.iter_child_nodes(node)]
    return found


def _spaced(tokens: Sequence[_Token]) -> str:
    """Code with the spaces that patsy gives it: it is the name of a column."""
    text: list[str] = []
    brackets: list[str] = []
    after_name = wants = opened = after_object = False
    for kind, token in tokens:
        if kind in _OBJECTS:
            if wants or after_name:
                text.append(" ")
            wants, after_name = False, True
        else:
            if token in _OPENING:
                brackets.append(token)
            elif brackets and token in _CLOSING:
                brackets.pop()
            before = token in _BOTH or token in ("!", "~")
            after = token in _BOTH or token in (",", ":")
            if token == ":" and brackets and brackets[-1] == "[":
                after = False
            if (token in ("*", "**") and opened) or (token in ("+", "-") and not after_object):
                before = after = False
            if token == "=" and not brackets:
                before = after = True
            if wants or before:
                text.append(" ")
            wants, after_name = after, False
        text.append(token)
        after_object = kind in _OBJECTS or token == ")"
        opened = token in ("(", ",")
    return "".join(text)
