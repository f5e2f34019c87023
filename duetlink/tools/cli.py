"""The command `duetlink`: `signal`, `demo`, `doctor`, `audit`, `state` and `settings`.

Exit codes: 0 success, 1 failure (one line `error: …`), 2 wrong usage, 130 interrupted. Each command imports
what it needs inside its function, so that `duetlink --help` is quick.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from duetlink.errors import DuetError, SettingError
from duetlink.version import __version__

if TYPE_CHECKING:
    import ssl

    from rich.console import Console

INTERRUPTED = 130
_WIDTH_OF_A_PIPE = 110  # columns of output that goes to no terminal

_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_FILES = {"audit_path": "audit_file", "budget_path": "budget_file", "state_path": "state_directory"}
_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; print errors of duetlink as a sentence, without a traceback."""
        try:
            return super().invoke(ctx)
        except DuetError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(1)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="duetlink")
def main() -> None:
    """Link two Jupyter notebooks: a data owner's and a data scientist's."""


# -- signal ------------------------------------------------------------------------------------------------


@main.command(short_help="Run the signaling server where notebooks meet.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0: all.")
@click.option(
    "--port", default=4040, show_default=True, type=click.IntRange(0, 65535), help="0: any free port."
)
@click.option("--tls-cert", type=_FILE, help="Certificate chain, PEM. Serves wss:// instead of ws://.")
@click.option("--tls-key", type=_FILE, help="Private key of the certificate, PEM.")
@click.option("--until-eof", is_flag=True, hidden=True, help="Also stop when standard input ends.")
def signal(host: str, port: int, tls_cert: Path | None, tls_key: Path | None, until_eof: bool) -> None:
    """Run the signaling server where notebooks meet, until Ctrl-C or SIGTERM.

    It cannot read messages: they are encrypted with a key made from the session code. Prints the line to put
    into the environment of both notebooks.
    """
    if (tls_cert is None) != (tls_key is None):
        given, missing = ("--tls-cert", "--tls-key") if tls_cert else ("--tls-key", "--tls-cert")
        raise click.UsageError(f"{given} needs {missing} as well")
    context = _tls_context(tls_cert, tls_key) if tls_cert and tls_key else None
    import asyncio

    with contextlib.suppress(KeyboardInterrupt):  # Windows: nothing else can be caught there
        asyncio.run(_serve(host, port, context, until_eof))


async def _serve(host: str, port: int, tls: ssl.SSLContext | None, until_eof: bool) -> None:
    import asyncio
    import signal as signals

    from duetlink.net.signaling.server import MailboxServer

    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signals.SIGINT, signals.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
    if until_eof:
        _at_end_of_input(lambda: loop.call_soon_threadsafe(stop.set))
    server = MailboxServer()
    bound_host, bound_port = await server.start(host, port, tls)
    try:
        click.echo(f"DUETLINK_SIGNALING={_address(bound_host, bound_port, tls is not None)}")
        await stop.wait()
    finally:
        await server.stop()


def _at_end_of_input(stop: Any) -> None:
    """Call `stop` when standard input ends, so that the server ends with the process that started it."""
    import os
    import threading

    def read() -> None:
        with contextlib.suppress(OSError):
            # not sys.stdin: its lock, held by a daemon thread, aborts the interpreter's exit
            while os.read(0, 4096):
                pass
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            stop()

    threading.Thread(target=read, name="duetlink-stdin", daemon=True).start()


def _tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    import ssl

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # without a password given, OpenSSL would ask on the terminal
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise SettingError(
            f"{certificate} and {key} cannot be used for TLS ({getattr(error, 'reason', None) or error}): "
            "they must be a PEM certificate chain and its PEM key, without a password"
        ) from None
    return context


def _address(host: str, port: int, tls: bool) -> str:
    if host in ("0.0.0.0", "::"):
        from duetlink.net.signaling.embedded import outward_address

        host = outward_address() or "127.0.0.1"
    scheme = "wss" if tls else "ws"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


# -- demo --------------------------------------------------------------------------------------------------


@main.command(short_help="Run the notebooks of a lesson against each other.")
@click.argument("name", default="1-basics")
@click.option("--list", "list_", is_flag=True, help="List the lessons, and run none.")
@click.option("--timeout", "timeout_s", default=180.0, show_default=True, help="Time limit in seconds.")
@click.option("--notebooks", type=_DIRECTORY, help="A directory with an owner.ipynb and a scientist.ipynb.")
@click.option(
    "--open", "open_", is_flag=True, help="Run nothing: open the notebooks side by side in JupyterLab."
)
@click.pass_context
def demo(
    ctx: click.Context, name: str, list_: bool, timeout_s: float, notebooks: Path | None, open_: bool
) -> None:
    """Run the notebooks of a lesson against each other in Jupyter kernels, and report the result.

    NAME is a name or number that --list shows; by default the first lesson. The notebooks with their outputs,
    and the audit log, are written to duetlink-demo/NAME in the current directory. With --open the notebooks
    are copied to duetlink-demo/NAME/by-hand, for you to play both parts.
    """
    from duetlink.tools.demo.lesson import choose, listed

    if list_:
        rows = listed()
        width = max((len(lesson) for lesson, _ in rows), default=0) + 2
        for lesson, title in rows:
            click.echo(f"{lesson:<{width}}{title}")
        return
    chosen = choose(name, notebooks)
    if open_:
        from duetlink.tools.demo.lab import open_side_by_side

        ctx.exit(open_side_by_side(_console(), chosen, Path.cwd()))
    from duetlink.tools.demo.play import play  # imported here: `choose` has checked that its libraries exist

    try:
        ctx.exit(play(_console(), chosen, timeout_s, Path.cwd()))
    except KeyboardInterrupt:
        click.echo("interrupted; the kernels and the signaling server are stopped", err=True)
        ctx.exit(INTERRUPTED)


# -- doctor ------------------------------------------------------------------------------------------------


@main.command(short_help="Examine what this machine's network allows, and what to do.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, schema duetlink-doctor/1.")
@click.option(
    "--timeout",
    "timeout_s",
    default=10.0,
    show_default=True,
    type=click.FloatRange(0.5, 120.0),
    help="Time limit in seconds.",
)
@click.pass_context
def doctor(ctx: click.Context, as_json: bool, timeout_s: float) -> None:
    """Examine what this machine's network allows, and say in plain words what to do.

    Tries the configured STUN, TURN and signaling servers, all at once. Exit status 0: peers can be reached in
    some way; 1: they cannot. Credentials are used, and never printed.
    """
    import asyncio

    from duetlink.settings import Settings
    from duetlink.tools.doctor.examine import examine

    try:
        report = asyncio.run(examine(Settings.from_environment(), timeout_s=timeout_s))
    except KeyboardInterrupt:
        ctx.exit(INTERRUPTED)
    if as_json:
        click.echo(report.json())
    else:
        _console().print(report)
    ctx.exit(0 if report.reachable else 1)


# -- audit -------------------------------------------------------------------------------------------------


@main.group(short_help="Show the audit log, or verify that it is intact.")
def audit() -> None:
    """Read and verify the audit log. Without PATH: the one that the settings name."""


@audit.command(short_help="Check that no entry was changed or is missing.")
@click.argument("paths", type=_FILE, metavar="[EARLIER]... [PATH]", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, schema duetlink-audit/1.")
@click.pass_context
def verify(ctx: click.Context, paths: tuple[Path, ...], as_json: bool) -> None:
    """Verify every entry of the log, and say what is wrong, and where. Exit status 0: unchanged; 1: changed.

    If the log was rotated, as by logrotate, name the EARLIER files too, the oldest first.
    """
    import json

    from duetlink.base.audit.verify import verify

    path = paths[-1] if paths else None
    report = verify(_audit_file(path), paths[:-1])
    click.echo(json.dumps(report.to_json()) if as_json else str(report))
    ctx.exit(0 if report.intact else 1)


@audit.command(short_help="Show the latest entries.")
@click.argument("path", type=_FILE, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the lines as they are in the log.")
@click.option("--last", default=50, show_default=True, type=click.IntRange(1), help="Number of entries.")
@click.option("--kind", multiple=True, help="Only entries of this kind, such as release; may be repeated.")
@click.option("--name", default="", help="Only about objects of this name, or pattern.")
@click.option("--peer", default="", help="Only with a peer of this name, or pattern.")
@click.option("--session", default="all", help="Only of this duet.")
def show(
    path: Path | None, as_json: bool, last: int, kind: tuple[str, ...], name: str, peer: str, session: str
) -> None:
    """Show the latest entries of the log, of all duets, oldest first."""
    from duetlink.duet.audit import Audit

    log = Audit(_audit_file(path))
    chosen = log.filter(kind=kind, name=name, peer=peer, session=session)
    if as_json:
        for line in chosen.latest_lines(last):
            click.echo(line.decode("ascii", "backslashreplace"), nl=False)
    else:
        click.echo(repr(chosen.table(last)))


def _audit_file(path: Path | None) -> Path:
    from duetlink.errors import AuditUnavailable
    from duetlink.settings import Settings

    found = path or Settings.from_environment().audit_file
    if found is None:
        raise AuditUnavailable("no audit log is kept: DUETLINK_AUDIT_PATH is empty; name a file")
    if not found.exists():
        raise AuditUnavailable(f"there is no audit log at {found}: nothing has been recorded there")
    return found


# -- state -------------------------------------------------------------------------------------------------


@main.group(short_help="Show or delete the state that launch(resume=…) keeps.")
def state() -> None:
    """Look at what launch(resume=…) keeps on this machine's disk, or delete it."""


@state.command("list", short_help="List every kept name.")
def list_() -> None:
    """List every name under which a duet is kept."""
    from duetlink.duet.state.listing import list_table
    from duetlink.settings import Settings

    click.echo(repr(list_table(Settings.from_environment().state_directory)))


@state.command("show", short_help="Show what is kept under a name.")
@click.argument("name")
def show_state(name: str) -> None:
    """Show what is kept under NAME: assets without their content, policies, requests, grants.

    A kernel may be using it meanwhile.
    """
    from duetlink.duet.state.directory import StateDirectory
    from duetlink.duet.state.listing import tables
    from duetlink.settings import Settings

    click.echo(
        "\n\n".join(map(repr, tables(StateDirectory(Settings.from_environment().state_directory, name))))
    )


@state.command(short_help="Delete all that is kept under a name.")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def forget(name: str, yes: bool) -> None:
    """Delete all that is kept under NAME, for ever. No kernel may be using it.

    This also deletes the record of spent privacy budgets and of what policies have released, so that later
    releases can no longer be added to earlier ones.
    """
    from duetlink.duet.state.directory import StateDirectory
    from duetlink.errors import StateUnavailable
    from duetlink.settings import Settings

    kept_state = StateDirectory(Settings.from_environment().state_directory, name)
    if not kept_state.directory.is_dir():
        raise StateUnavailable(f"nothing is kept under the name {name!r} in {kept_state.directory.parent}")
    if not yes:
        click.confirm(
            f"Delete {kept_state.directory}, with the record of what was released and of the privacy spent?",
            abort=True,
        )
    kept_state.remove()
    click.echo(f"{kept_state.directory} is deleted")


# -- settings ----------------------------------------------------------------------------------------------


@main.command(short_help="Show every setting and its value.")
def settings() -> None:
    """Show every setting with its value, its default if that differs, its meaning and its variable."""
    import dataclasses

    from rich.table import Table
    from rich.text import Text

    from duetlink.settings import Settings

    in_force = Settings.from_environment()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("setting")
    table.add_column("in force", overflow="fold", max_width=36)  # a file's name may be long
    table.add_column("meaning, environment variable", overflow="fold")
    for field in dataclasses.fields(Settings):
        value = getattr(in_force, field.name)
        variable = field.metadata["env"]
        meaning = Text(field.metadata["doc"])
        if variable:
            meaning.append(f"\n{variable}", "cyan")
        shown = Text(_shown(field.name, value))
        if value != field.default:
            shown.stylize("bold green")
            shown.append(f"\n(default: {_shown(field.name, field.default)})", "default not bold")
        table.add_row(field.name, shown, meaning)
    _console().print(table)


def _shown(name: str, value: Any) -> str:
    """Return a value as text, with its unit and without secrets."""
    if name in _FILES:
        from duetlink.settings import Settings

        file = str(getattr(Settings(**{name: value}), _FILES[name]) or "none")
        return file.replace(str(Path.home()), "~", 1) if file.startswith(str(Path.home())) else file
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "ice_servers":
        return "\n".join(
            " ".join((*server.urls, "(with credentials)" if server.username or server.credential else ""))
            for server in value
        )
    if name == "signaling":
        return _without_password(value)
    if name.endswith("_bytes"):
        for unit, size in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
            if value % size == 0:
                return f"{value // size} {unit}"
        return f"{value:,} B"
    if name.endswith("_s"):
        return f"{value:g} s"
    if isinstance(value, str):
        return value
    return ", ".join(value) if isinstance(value, tuple) else f"{value:,}"


def _without_password(url: str) -> str:
    scheme, slashes, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    who, at, host = authority.rpartition("@")
    return f"{scheme}{slashes}{'…' if who else ''}{at}{host}{slash}{path}"


def _console() -> Console:
    import os

    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        return Console(highlight=False, width=_WIDTH_OF_A_PIPE)
    return console
