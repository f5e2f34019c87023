"""The command line of the benchmarks: `python -m benchmarks [NAME [OPTIONS]]…`.

A benchmark is a module whose `main` is made by `benchmark`, with an option of click for each parameter. Its
`--help` is the module's docstring. A benchmark is imported when it is named: some need torch or a browser.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

_SETTINGS = {"help_option_names": ["-h", "--help"]}


class Benchmark(click.Command):
    """One benchmark. What it measures is not in the user's own audit log."""

    def invoke(self, ctx: click.Context) -> Any:
        with _own_data_home():
            return super().invoke(ctx)


def benchmark(work: Callable[..., None]) -> Benchmark:
    """Make a module's `main` its command."""
    text = sys.modules[work.__module__].__doc__
    return click.command(cls=Benchmark, context_settings=_SETTINGS, help=text)(work)


def rounds(default: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option `--rounds`, which most benchmarks have."""
    return click.option(
        "--rounds",
        type=click.IntRange(1),
        default=default,
        show_default=True,
        help="How often each way is measured.",
    )


def command_line() -> str:
    """What to type to run the current command again; of its options those that are not the defaults."""
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return ""
    words = ctx.command_path.split()
    for option in ctx.command.params:
        value = ctx.params.get(option.name or "")
        if value == option.get_default(ctx):
            continue
        for one in value if isinstance(value, tuple) else [value]:
            if one is not None:
                words += [option.opts[0], str(one)]
    return shlex.join(words)


class Benchmarks(click.Group):
    """Benchmarks, run one after another when all words have been read; without a name, the tables."""

    def __init__(self, package: str, tables: Sequence[str], by_name_alone: Sequence[str]) -> None:
        super().__init__(
            "benchmarks",
            chain=True,
            no_args_is_help=False,
            context_settings=_SETTINGS,
            help="Compare ways of doing the same work within one run. Without a NAME, run the tables.",
            subcommand_metavar="[NAME [OPTIONS]]…",
        )
        self._package = package
        self._tables = tuple(tables)
        self._by_name_alone = tuple(by_name_alone)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or list(self._tables))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._tables, *self._by_name_alone]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"{self._package}.{cmd_name}").main
        assert isinstance(command, Benchmark)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse a word that is no benchmark, and say which there are."""
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-"):
            ctx.fail(
                f"there is no benchmark {args[0]!r}; there are {', '.join(names)}. "
                "A benchmark's parameters are options; NAME --help lists them."
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in (
            ("The tables", self._tables),
            ("By name alone, since they take long or need more than this machine", self._by_name_alone),
        ):
            with formatter.section(title):
                formatter.write_dl([(name, self._summary(name)) for name in names])

    def _summary(self, name: str) -> str:
        """The first paragraph of a benchmark's docstring, read without importing it."""
        spec = importlib.util.find_spec(f"{self._package}.{name}")
        assert spec is not None
        assert spec.origin is not None
        text = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
        return " ".join(text.partition("\n\n")[0].split())


@contextlib.contextmanager
def _own_data_home() -> Iterator[None]:
    before = os.environ.get("XDG_DATA_HOME")
    with tempfile.TemporaryDirectory() as directory:
        os.environ["XDG_DATA_HOME"] = directory
        try:
            yield
        finally:
            if before is None:
                del os.environ["XDG_DATA_HOME"]
            else:
                os.environ["XDG_DATA_HOME"] = before
