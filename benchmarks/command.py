"""The command line of the benchmarks: `python -m benchmarks [--quick] [NAME [OPTIONS]]…`.

A benchmark is a module whose `main` is made by `benchmark`, with an option of click for each parameter. Its
`--help` is the module's docstring. A benchmark is imported when it is named: some need torch or a browser.
`QUICK` of the module has the parameters with which it is done in seconds; `rounds` is 1 there anyway.
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

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if parent is not None and parent.params.get("quick"):
            assert self.callback is not None
            module = sys.modules[self.callback.__module__]
            extra["default_map"] = {"rounds": 1, **getattr(module, "QUICK", {})}
        return super().make_context(info_name, args, parent, **extra)

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


def sizes(default: tuple[int, ...]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option `--size-bytes`, which may be repeated."""
    return click.option(
        "--size-bytes",
        "sizes_bytes",
        type=click.IntRange(1),
        multiple=True,
        default=default,
        show_default=True,
        help="Of an array; may be repeated.",
    )


class Parts(click.Option):
    """An option that chooses parts of a benchmark, each of which makes a table of its own."""


def parts(option: str, name: str, choices: Sequence[str], meaning: str = "") -> Callable[..., Any]:
    """The option that chooses `Parts`, of which all are done by default."""
    return click.option(
        option,
        name,
        cls=Parts,
        type=click.Choice(choices),
        multiple=True,
        default=tuple(choices),
        show_default=True,
        help=f"{meaning} May be repeated.".lstrip(),
    )


def is_quick() -> bool:
    """Whether sizes are so small that figures mean nothing."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.find_root().params.get("quick"))


def command_line() -> str:
    """Return the command line that makes the current table again, without options that have defaults and
    without a choice of parts.
    """
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return ""
    words = ctx.command_path.split()
    for option in ctx.command.params:
        value = ctx.params.get(option.name or "")
        if value == option.get_default(ctx) or isinstance(option, Parts):
            continue
        if isinstance(option, click.Option) and option.is_flag:
            words.append((option.opts if value else option.secondary_opts)[0])
            continue
        for one in value if isinstance(value, tuple) else [value]:
            if one is not None:
                words += [option.opts[0], str(one)]
    return shlex.join(words)


class Benchmarks(click.Group):
    """Benchmarks, run one after another when all words have been read; without a name, the commands `bench`.

    A command is a benchmark's name with options.
    """

    def __init__(self, package: str, bench: Sequence[str], weekly: Sequence[str]) -> None:
        super().__init__(
            "benchmarks",
            chain=True,
            no_args_is_help=False,
            context_settings=_SETTINGS,
            params=[click.Option(["--quick"], is_flag=True, help="Tiny sizes, once; see whether it works.")],
            help="Compare ways of doing the same work within one run. Without a NAME, those of make bench.",
            subcommand_metavar="[NAME [OPTIONS]]…",
        )
        self._package = package
        self._bench = tuple(bench)
        self._names = tuple(dict.fromkeys(command.split()[0] for command in bench))
        others = dict.fromkeys(command.split()[0] for command in weekly)
        self._by_name_alone = tuple(name for name in others if name not in self._names)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = [word for word in args if not word.startswith("-")]
        default = [] if named or {"-h", "--help"} & set(args) else shlex.split(" ".join(self._bench))
        return super().parse_args(ctx, [*args, *default])

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._names, *self._by_name_alone]

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
            ("Run by make bench", self._names),
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
