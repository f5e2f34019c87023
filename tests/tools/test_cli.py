"""The command line: what it prints, where errors go, which exit codes it gives."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import duetlink
from duetlink.base.audit.entry import Entry
from duetlink.base.audit.log import AuditLog
from duetlink.net.flight.certificate import create_identity
from duetlink.net.signaling import WebSocketMailbox
from duetlink.tools.cli import main

SIGNAL = (sys.executable, "-m", "duetlink", "signal")


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"COLUMNS": "120", **environment})


def test_version() -> None:
    assert run("--version").output == f"duetlink, version {duetlink.__version__}\n"


def test_help_is_light() -> None:
    heavy = ("rich", "aiohttp", "numpy", "pyarrow", "aiortc", "nbclient", "asyncio")
    program = (
        "import sys; from duetlink.tools.cli import main; main(['--help'], standalone_mode=False);"
        f"print('heavy:', *sorted(set(sys.modules) & {set(heavy)!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1].strip() == "heavy:"


# -- audit -------------------------------------------------------------------------------------------------


@pytest.fixture
def log(private_audit_log: Path) -> AuditLog:
    log = AuditLog(private_audit_log)
    log.append(
        [Entry(kind="share", session="s", name="x"), Entry(kind="request", session="t", name="\x1b[2J")]
    )
    return log


def test_an_intact_audit_log_is_verified(log: AuditLog) -> None:
    result = run("audit", "verify")
    assert result.exit_code == 0
    assert result.output.startswith(f"{log.path}: 2 entries, none changed, none missing; the last one has")
    report = json.loads(run("audit", "verify", str(log.path), "--json").output)
    assert (report["schema"], report["intact"], report["entries"]) == ("duetlink-audit/1", True, 2)


def test_a_changed_audit_log_is_an_exit_status_and_the_place(log: AuditLog) -> None:
    log.path.write_bytes(log.path.read_bytes().replace(b"share", b"Share"))
    result = run("audit", "verify")
    assert result.exit_code == 1
    assert "line 1: changed" in result.output
    (finding,) = json.loads(run("audit", "verify", "--json").output)["findings"]
    assert (finding["line"], finding["what"]) == (1, "changed")


def test_an_audit_log_that_was_moved_away_is_verified_with_its_earlier_file(log: AuditLog) -> None:
    moved = log.path.with_name("audit.jsonl.1")
    log.path.rename(moved)
    log.append([Entry(kind="share", session="s", name="y")])
    alone = run("audit", "verify")
    assert alone.exit_code == 1
    assert "entries 0 to 1 before it, in a file that was moved away or removed" in alone.output
    both = run("audit", "verify", str(moved), str(log.path))
    assert both.exit_code == 0
    assert both.output.startswith(f"{log.path}: 4 entries, none changed, none missing")


def test_entries_of_the_audit_log_are_shown(log: AuditLog) -> None:
    result = run("audit", "show")
    assert result.exit_code == 0
    assert "share" in result.output
    assert "\\x1b[2J" in result.output
    assert "\x1b" not in result.output
    assert "share" not in run("audit", "show", "--kind", "request").output
    assert "request" not in run("audit", "show", "--session", "s").output
    assert "the latest 1 of 2 entries" in run("audit", "show", "--last", "1").output
    lines = run("audit", "show", "--json", "--last", "1").output.splitlines()
    assert [json.loads(line)["number"] for line in lines] == [1]


def test_where_there_is_no_audit_log_the_command_says_so(private_audit_log: Path) -> None:
    result = run("audit", "verify")
    assert result.exit_code == 1
    assert f"error: there is no audit log at {private_audit_log}" in result.output
    assert "DUETLINK_AUDIT_PATH is empty" in run("audit", "show", DUETLINK_AUDIT_PATH="").output


# -- settings ----------------------------------------------------------------------------------------------


def test_settings_shows_which_file_the_audit_log_is(private_audit_log: Path) -> None:
    rows = [
        line for line in run("settings", COLUMNS="300").output.splitlines() if line.startswith("audit_path")
    ]
    assert rows[0].split()[1] == str(private_audit_log)[:36]
    rows = run("settings", DUETLINK_AUDIT_PATH="").output.splitlines()
    assert [row.split()[1] for row in rows if row.startswith("audit_path")] == ["none"]


def test_settings_names_every_field_with_its_variable_and_the_value_in_force() -> None:
    result = run(
        "settings", DUETLINK_ONLY="tcp,channel", DUETLINK_MAX_RECEIVED_BYTES="1048576", COLUMNS="160"
    )
    assert result.exit_code == 0
    for name in duetlink.Settings.__dataclass_fields__:
        assert name in result.output
    lines = result.output.splitlines()
    (paths,) = (line for line in lines if line.startswith("only "))
    assert paths.split()[1:5] == ["tcp,", "channel", "paths", "that"]
    number = next(number for number, line in enumerate(lines) if line.startswith("max_received_bytes "))
    assert lines[number].split()[1:4] == ["1", "MiB", "most"]
    assert lines[number + 1].split() == ["(default:", "4", "GiB)", "DUETLINK_MAX_RECEIVED_BYTES"]
    assert "DUETLINK_MAX_RECEIVED_BYTES" in result.output


def test_settings_shows_no_credentials() -> None:
    servers = '[{"urls": "turn:turn.example.org", "username": "ada", "credential": "hunter2"}]'
    result = run(
        "settings", DUETLINK_ICE_SERVERS=servers, DUETLINK_SIGNALING="wss://bob:sesame@meet.example.org/x"
    )
    assert "turn:turn.example.org" in result.output
    assert "credentials" in result.output
    assert "meet.example.org" in result.output
    for secret in ("hunter2", "ada", "bob", "sesame"):
        assert secret not in result.output


def test_a_bad_setting_is_one_line_on_stderr() -> None:
    result = run("settings", DUETLINK_CODE_LIFETIME_S="soon")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(
        "error: environment variable DUETLINK_CODE_LIFETIME_S='soon' cannot be read"
    )
    assert len(result.stderr.splitlines()) == 1


# -- signal ------------------------------------------------------------------------------------------------


async def test_signal_serves_until_sigterm_and_frees_its_port() -> None:
    process = await asyncio.create_subprocess_exec(*SIGNAL, "--port", "0", stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        variable, _, url = (
            (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip().partition("=")
        )
        assert variable == "DUETLINK_SIGNALING"
        owner, nameplate = await WebSocketMailbox.claim(url)
        scientist = await WebSocketMailbox.join(url, nameplate)
        await owner.send(b"sealed")
        assert await scientist.receive() == b"sealed"
        await owner.close()
        await scientist.close()
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 10) == 0
        assert await process.stdout.read() == b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", int(url.rpartition(":")[2])))


def test_signal_ends_with_its_standard_input_where_asked_to() -> None:
    done = subprocess.run(
        [*SIGNAL, "--port", "0", "--until-eof"], input=b"", capture_output=True, timeout=30, check=True
    )
    assert done.stdout.startswith(b"DUETLINK_SIGNALING=ws://127.0.0.1:")
    assert done.stderr == b""


def test_signal_on_a_taken_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("signal", "--port", str(port))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: the signaling server cannot listen on 127.0.0.1:{port}")
    assert len(result.stderr.splitlines()) == 1


@pytest.fixture
def pem(tmp_path: Path) -> tuple[Path, Path]:
    identity = create_identity()
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(identity.certificate_pem)
    key.write_bytes(identity.private_key_pem)
    return certificate, key


def test_signal_with_one_tls_option_only(pem: tuple[Path, Path]) -> None:
    for given, missing, file in (("--tls-cert", "--tls-key", pem[0]), ("--tls-key", "--tls-cert", pem[1])):
        result = run("signal", given, str(file))
        assert result.exit_code == 2
        assert f"{given} needs {missing} as well" in result.stderr


def test_signal_with_files_that_are_no_certificate(pem: tuple[Path, Path], tmp_path: Path) -> None:
    result = run("signal", "--tls-cert", str(tmp_path / "none"), "--tls-key", str(pem[1]))
    assert result.exit_code == 2
    assert "does not exist" in result.stderr
    (tmp_path / "text").write_text("hello")
    result = run("signal", "--tls-cert", str(tmp_path / "text"), "--tls-key", str(pem[1]))
    assert result.exit_code == 1
    assert "cannot be used for TLS" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_signal_over_tls_says_wss(pem: tuple[Path, Path]) -> None:
    arguments = (*SIGNAL, "--port", "0", "--until-eof", "--tls-cert", str(pem[0]), "--tls-key", str(pem[1]))
    done = subprocess.run(arguments, input=b"", capture_output=True, timeout=30, check=True)
    assert done.stdout.startswith(b"DUETLINK_SIGNALING=wss://127.0.0.1:")


# -- demo --------------------------------------------------------------------------------------------------


def test_demo_without_notebooks_says_where_it_looked(tmp_path: Path) -> None:
    result = run("demo", "--notebooks", str(tmp_path))
    assert result.exit_code == 1
    assert f"nor member-NAME.ipynb in {tmp_path}" in result.stderr
    assert os.listdir(tmp_path) == []


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first lesson in `duetlink-demo/mine` of the current directory."""
    lesson = Path(__file__).parents[2] / "notebooks" / "1-basics"
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(lesson, tmp_path / "duetlink-demo" / "mine"))


def test_demo_does_not_overwrite_the_notebooks_that_it_plays(mine: Path) -> None:
    before = (mine / "owner.ipynb").read_bytes()
    result = run("demo", "--notebooks", "duetlink-demo/mine")
    assert result.exit_code == 1
    assert result.stderr == (
        f"error: the executed notebooks would overwrite those in {mine}; "
        "run duetlink demo in another directory\n"
    )
    assert (mine / "owner.ipynb").read_bytes() == before


def test_demo_where_nothing_can_be_written_plays_nothing(mine: Path) -> None:
    notebooks = mine.rename(mine.parents[1] / "mine")
    mine.parent.rmdir()
    mine.parent.write_text("a file of this name")
    result = run("demo", "--notebooks", str(notebooks))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == (
        f"error: {mine}, where the executed notebooks go, cannot be written to: Not a directory; "
        "run duetlink demo in a directory of yours\n"
    )
