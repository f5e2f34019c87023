"""Extracts the source of a notebook function so that it runs elsewhere with only its arguments and libraries.

Modules, library functions and library classes that the function uses from its surroundings become `import`
lines in front of it. Any other name from its surroundings is refused: its value would be data that the owner
never sees.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import itertools
import symtable
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from duetlink.compute.operations.function import check_letters, check_source
from duetlink.errors import OperationRefused, SettingError

_FUTURE = "from __future__ import annotations"
_OURS = "duetlink"
# packages whose submodules are usable after `import package`
_WHOLE = frozenset(("numpy", "pandas", "polars", "scipy", "torch", _OURS))


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a function that can be sent, and its compiled code for running it here."""

    name: str
    text: str
    code: types.CodeType  # compiled from `text`, with the file and lines of the notebook, for tracebacks

    def run(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """Call the function in this process, in a new namespace. Its exceptions pass through."""
        namespace: dict[str, Any] = {"__name__": "__main__"}
        exec(self.code, namespace)
        return namespace[self.name](*arguments, **keywords)


def source_of(function: Any) -> Source:
    """Return the source of a function with its imports, without its decorator.

    Raises:
        SettingError: it cannot be sent; the message names the part that is in the way.
    """
    name = _check_kind(function)
    try:
        lines, first_line = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise SettingError(
            f"the source of {name} is not known here; define it by `def` in a cell or in a file"
        ) from None
    node, text = _definition(name, "".join(lines))
    if len(node.decorator_list) > 1:
        raise SettingError(
            f"{name} has other decorators than duet.remote, which are not sent; leave them out"
        )
    node.decorator_list = []
    imports = sorted(set(_imports(function, node)))
    if _has_annotations(node):
        imports.insert(0, _FUTURE)  # annotations are not evaluated, so the names in them need not exist
    text = "\n".join([*imports, "", "", text]) if imports else text
    try:
        check_source(name, text)
        check_letters(name, text)
    except OperationRefused as error:
        raise SettingError(str(error)) from None
    return Source(name, text, _compiled(function, node, imports, first_line))


def _compiled(
    function: FunctionType, node: ast.FunctionDef, imports: list[str], first_line: int
) -> types.CodeType:
    """Compile the function with the lines and columns of the notebook, so that tracebacks show them."""
    ast.increment_lineno(node, first_line - 2)  # in the tree the function begins at line 2
    heads = [ast.parse(line).body[0] for line in imports]
    for part in itertools.chain.from_iterable(map(ast.walk, heads)):
        if isinstance(part, (ast.stmt, ast.alias)):
            part.lineno = part.end_lineno = node.lineno
    return compile(ast.Module([*heads, node], []), function.__code__.co_filename, "exec", dont_inherit=True)


def _check_kind(function: Any) -> str:
    if inspect.ismethod(function):
        raise SettingError(f"{function.__qualname__} is a method; send a function, and give it what it needs")
    if not isinstance(function, FunctionType):
        raise SettingError(
            f"a function that was defined by `def` can be sent, not a {type(function).__name__}"
        )
    name = function.__name__
    if name == "<lambda>":
        raise SettingError("a lambda has no source of its own; define the function by `def`")
    if hasattr(function, "__wrapped__"):
        raise SettingError(f"{name} is wrapped by a decorator, which is not sent; leave that out")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise SettingError(f"{name} is async; there is no loop at the owner: define it by plain `def`")
    if inspect.isgeneratorfunction(function):
        raise SettingError(f"{name} is a generator; let it return a list, or what it sums up to")
    within = function.__qualname__.rpartition(".")[0]
    if within and not within.endswith("<locals>"):
        raise SettingError(
            f"{function.__qualname__} is part of a class; send a function, and give it what it needs"
        )
    return name


def _definition(name: str, source: str) -> tuple[ast.FunctionDef, str]:
    """Return the function's syntax tree, and its text from `def` on without indentation.

    Lines in the tree are one higher than in `source`. Raises SettingError if `source` does not match.
    """
    try:
        parsed: Any = ast.parse(f"if True:\n{source}" if source[:1].isspace() else f"\n{source}").body[0]
        node = parsed.body[0] if source[:1].isspace() else parsed
    except SyntaxError:
        node = None
    if not isinstance(node, ast.FunctionDef) or node.name != name:
        raise SettingError(f"the source of {name} is not what it was made from any more; define it once more")
    lines = source.split("\n")[node.lineno - 2 : (node.end_lineno or node.lineno) - 1]
    text = textwrap.dedent("\n".join(lines)) + "\n"
    bare = copy.copy(node)
    bare.decorator_list = []
    try:
        same = ast.dump(ast.parse(text).body[0]) == ast.dump(bare)
    except SyntaxError:
        same = False
    # a text over several lines is another one without its margin
    return node, text if same else ast.unparse(bare) + "\n"


# -- what it has from around it ------------------------------------------------------------------------------


def _imports(function: FunctionType, node: ast.FunctionDef) -> Iterator[str]:
    """Yield the import lines that the function needs.

    Raises:
        SettingError: it uses a name from its surroundings that no import provides.
    """
    around = _around(function)
    for name in sorted(_free_names(node) - {node.name}):
        if name not in around:
            if hasattr(builtins, name):
                continue
            raise SettingError(f"{node.name} uses {name}, which is not defined")
        value = around[name]
        line = _import_of(name, value)
        if line is None:
            raise SettingError(f"{node.name} uses {name} from around it, {_words(value)}")
        yield line
        if isinstance(value, ModuleType):
            yield from _parts_used(name, value.__name__, node)


def _around(function: FunctionType) -> dict[str, Any]:
    found = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not set yet
            found.pop(name, None)
    return found


def _free_names(node: ast.FunctionDef) -> set[str]:
    """Return the names that the function uses and does not define; names in annotations do not count."""
    plain = _Unannotated().visit(copy.deepcopy(node))
    try:
        table = symtable.symtable(ast.unparse(ast.fix_missing_locations(plain)), node.name, "exec")
    except SyntaxError as error:
        raise SettingError(f"{node.name} cannot be taken from what is around it: {error.msg}") from None
    names: set[str] = set()
    tables = [table]
    while tables:
        inner = tables.pop()
        tables += inner.get_children()
        for symbol in inner.get_symbols():
            if symbol.is_declared_global():
                raise SettingError(f"{node.name} declares {symbol.get_name()} as global; return it instead")
            if symbol.is_referenced() and (inner is table or symbol.is_global()):
                names.add(symbol.get_name())
    return names


class _Unannotated(ast.NodeTransformer):
    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)


def _has_annotations(node: ast.FunctionDef) -> bool:
    return any(
        isinstance(part, ast.AnnAssign)
        or (isinstance(part, ast.arg) and part.annotation is not None)
        or (isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)) and part.returns is not None)
        for part in ast.walk(node)
    )


def _import_of(name: str, value: Any) -> str | None:
    """Return the import line for a module, function or class of a library; None for anything else."""
    if isinstance(value, ModuleType):
        path = value.__name__
        if not _is_library(path):
            return None
        return f"import {path}" if path == name else f"import {path} as {name}"
    called = getattr(value, "__name__", None)
    if not callable(value) or not isinstance(called, str):
        return None
    module = getattr(value, "__module__", None)
    parts = module.split(".") if isinstance(module, str) else []
    homes = [".".join(parts[: count + 1]) for count in range(len(parts))] or sorted(_WHOLE)
    for home in homes:  # the public module first: sklearn.linear_model, not sklearn.linear_model._logistic
        if home in sys.modules and getattr(sys.modules[home], called, None) is value and _is_library(home):
            return f"from {home} import {called}" + ("" if called == name else f" as {name}")
    return None


def _parts_used(name: str, path: str, node: ast.FunctionDef) -> Iterator[str]:
    """Yield import lines for submodules that `import package` alone does not load."""
    if path.partition(".")[0] in _WHOLE:
        return
    for part in ast.walk(node):
        chain: list[str] = []
        base: ast.AST = part
        while isinstance(base, ast.Attribute):
            chain.insert(0, base.attr)
            base = base.value
        if not isinstance(base, ast.Name) or base.id != name:
            continue
        found = path
        for attribute in chain:
            inner = sys.modules.get(f"{found}.{attribute}")
            if inner is None or getattr(sys.modules[found], attribute, None) is not inner:
                break
            found = f"{found}.{attribute}"
        if found != path:
            yield f"import {found}"


def _is_library(path: str) -> bool:
    """Return True for the standard library, duetlink and installed packages: the owner can have those too."""
    root = path.partition(".")[0]
    if root in sys.stdlib_module_names or root == _OURS:
        return True
    module = sys.modules.get(root)
    locations = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    return any(
        not {"site-packages", "dist-packages"}.isdisjoint(Path(location).parts)
        for location in locations
        if isinstance(location, str)
    )


def _words(value: Any) -> str:
    """Describe a value that cannot be sent with a function, and say what to do instead."""
    if isinstance(value, ModuleType):
        return "a module of your own, which the owner does not have; define what you need of it inside"
    if callable(value) and hasattr(value, "__name__"):
        return "which is of your own; define it inside"
    return f"a {type(value).__name__}; give it as an argument"
