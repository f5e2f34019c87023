# ruff: noqa: ASYNC220, ASYNC221, ASYNC240  these tests look at files and processes on purpose
from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import platformdirs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duetlink.errors import LocalProtocolError, SettingError
from duetlink.net.signaling import embedded as embedded_module
from duetlink.net.signaling.client import WebSocketMailbox
from duetlink.net.signaling.code import SessionCode
from duetlink.net.signaling.discovery import (
    SignalingServer,
    announce,
    configured,
    live_servers,
    runtime_directory,
)
from duetlink.net.signaling.embedded import EmbeddedServer, outward_address
from duetlink.net.signaling.server import MailboxServer
from duetlink.settings import Settings

DEFAULTS = Settings()


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    server = EmbeddedServer(directory=tmp_path)
    await server.start()
    yield server
    await server.stop()


def entry(path: Path, **changes: object) -> Path:
    content: dict[str, object] = {
        "url": "ws://127.0.0.1:1",
        "in_code": None,
        "pid": os.getpid(),
        "host": socket.gethostname(),
    }
    file = path / "duetlink-signaling-77.json"
    file.write_text(json.dumps(content | changes))
    file.chmod(0o600)
    return file


def test_the_setting_names_the_server_and_without_one_no_other_kernels_is_taken(
    embedded: EmbeddedServer,
) -> None:
    assert configured(Settings(signaling="wss://lab.example.org/duet")) == SignalingServer(
        "wss://lab.example.org/duet", "wss://lab.example.org/duet"
    )
    assert configured(DEFAULTS) is None


def test_paste_and_nonsense_name_no_server() -> None:
    with pytest.raises(LocalProtocolError, match="by hand"):
        configured(Settings(signaling="paste"))
    with pytest.raises(SettingError, match="http://x"):
        configured(Settings(signaling="http://x"))


def test_what_a_code_carries_for_a_server() -> None:
    assert SignalingServer.at("lab:4000") == SignalingServer("ws://lab:4000", "lab:4000")
    assert SignalingServer.at("ws://lab") == SignalingServer("ws://lab", "ws://lab")
    for here in ("127.0.0.1:9", "localhost:9", "ws://[::1]:9"):
        assert SignalingServer.at(here).in_code is None


async def test_an_embedded_server_is_found_used_and_withdrawn(
    embedded: EmbeddedServer, tmp_path: Path
) -> None:
    (file,) = tmp_path.iterdir()
    assert file.name == f"duetlink-signaling-{os.getpid()}.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (found,) = await live_servers(tmp_path)
    owner, nameplate = await WebSocketMailbox.claim(found.url)
    assert found.in_code is not None
    code = SessionCode.generate(nameplate, found.in_code)
    scientist = await WebSocketMailbox.join(code.url or found.url, nameplate)
    await owner.close()
    await scientist.close()
    await embedded.stop()
    assert list(tmp_path.iterdir()) == []
    assert await live_servers(tmp_path) == []


async def test_a_refused_connection_or_a_dead_process_is_cleared_away(
    tmp_path: Path, server: MailboxServer
) -> None:
    _, port = await server.start()
    await server.stop()
    file = entry(tmp_path, url=f"ws://127.0.0.1:{port}")
    assert await live_servers(tmp_path) == []
    assert not file.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no way to ask for a process here")
async def test_a_dead_process_is_cleared_away_even_if_something_answers(tmp_path: Path, url: str) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    file = entry(tmp_path, url=url, pid=child.pid)
    assert await live_servers(tmp_path) == []
    assert not file.exists()


async def test_the_oldest_live_server_is_taken(tmp_path: Path, url: str, embedded: EmbeddedServer) -> None:
    older = entry(tmp_path, url=url)
    os.utime(older, ns=(0, 0))
    assert [each.url for each in await live_servers(tmp_path)] == [url, embedded.address.url]


async def test_files_of_others_are_left_alone_and_unused(tmp_path: Path, url: str) -> None:
    file = entry(tmp_path, url=url, host="another-machine")
    assert await live_servers(tmp_path) == []
    assert file.exists()
    file = entry(tmp_path, url=url)
    file.chmod(0o666)
    assert await live_servers(tmp_path) == []
    assert file.exists()
    file.unlink()
    target = tmp_path / "elsewhere.json"
    entry(tmp_path, url=url).rename(target)
    file.symlink_to(target)
    assert await live_servers(tmp_path) == []
    file.unlink()
    file.mkdir()
    assert await live_servers(tmp_path) == []


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=9), lambda inner: st.lists(inner, max_size=3)
        ).map(
            lambda value: json.dumps({"url": value, "in_code": value, "pid": value, "host": value}).encode()
        ),
        st.just(b"[" * 4000),
        st.just(b" " * 5000),
    )
)
async def test_no_file_content_breaks_discovery(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "duetlink-signaling-1.json"
    file.write_bytes(content)
    file.chmod(0o600)
    assert await live_servers(tmp_path) == []


async def test_an_announcement_removes_only_itself(tmp_path: Path) -> None:
    with announce(SignalingServer("ws://127.0.0.1:1"), tmp_path) as first:
        second = announce(SignalingServer("ws://127.0.0.1:2"), tmp_path)
        assert first.path == second.path
    assert second.path.exists()
    second.remove()
    second.remove()
    assert list(tmp_path.iterdir()) == []


async def test_a_server_that_cannot_announce_itself_still_serves(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    server = EmbeddedServer(directory=blocked)
    await server.start()
    owner, _ = await WebSocketMailbox.claim(server.address.url)
    await owner.close()
    await server.stop()


async def test_without_a_route_outwards_a_code_is_good_on_this_machine_and_for_this_server_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_module, "outward_address", lambda: None)
    server = EmbeddedServer(directory=tmp_path)
    await server.start()
    assert server.address.in_code == f"127.0.0.1:{server.port}"
    await server.stop()


def test_the_outward_address_is_none_or_another_machines_way_in() -> None:
    address = outward_address()
    assert address is None or not address.startswith(("127.", "0."))


@pytest.mark.filterwarnings("ignore:XDG_RUNTIME_DIR")
def test_the_runtime_directory_is_jupyters(monkeypatch: pytest.MonkeyPatch) -> None:
    assert runtime_directory({"JUPYTER_RUNTIME_DIR": "/somewhere"}) == Path("/somewhere")
    monkeypatch.setitem(sys.modules, "jupyter_core.paths", None)
    monkeypatch.setattr(
        platformdirs, "user_data_dir", lambda name, appauthor: f"/home/ada/.local/share/{name}"
    )
    assert runtime_directory({}) == Path("/home/ada/.local/share/jupyter/runtime")


async def test_a_process_that_ends_withdraws_its_announcement(tmp_path: Path) -> None:
    program = (
        "import asyncio, pathlib, sys\n"
        "from duetlink.net.signaling.embedded import EmbeddedServer\n"
        "async def main():\n"
        "    await EmbeddedServer(directory=pathlib.Path(sys.argv[1])).start()\n"
        "    print(len(list(pathlib.Path(sys.argv[1]).iterdir())))\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=30
    )
    assert done.stdout == "1\n"
    assert list(tmp_path.iterdir()) == []
