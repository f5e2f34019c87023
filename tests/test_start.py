"""A fresh interpreter is connected without the modules that it does not need, and they work later."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

import duetlink

CONNECT = """
import sys, duetlink
with duetlink.launch() as owner, duetlink.join(owner.code):
    owner.wait_connected(60)
    print("loaded", *sorted(set(sys.modules) & set(sys.argv[1:])))
"""

MEDIA = """
import asyncio, aiortc, av

async def first_frame():
    track = aiortc.AudioStreamTrack()
    assert type(await track.recv()) is av.AudioFrame
    assert type(await aiortc.VideoStreamTrack().recv()) is av.VideoFrame
    caller, called = aiortc.RTCPeerConnection(), aiortc.RTCPeerConnection()
    arrived = asyncio.get_running_loop().create_future()
    called.on("track", arrived.set_result)
    caller.addTrack(track)
    await caller.setLocalDescription(await caller.createOffer())
    await called.setRemoteDescription(caller.localDescription)
    await called.setLocalDescription(await called.createAnswer())
    await caller.setRemoteDescription(called.localDescription)
    frame = await (await arrived).recv()
    await caller.close()
    await called.close()
    return frame

assert av.open.__module__.startswith("av.")
assert type(asyncio.run(asyncio.wait_for(first_frame(), 30))) is av.AudioFrame
import aiortc.contrib.media
assert aiortc.contrib.media.av is av
"""

MDNS = """
import aioice.ice
assert not aioice.ice.mdns.is_mdns_hostname("192.0.2.1")
assert "dns" not in sys.modules
assert aioice.ice.mdns.is_mdns_hostname("0b96.local")
assert not aioice.ice.mdns.is_mdns_hostname("0b96.local.example")
import aioice.mdns
assert aioice.ice.mdns.create_mdns_protocol is aioice.mdns.create_mdns_protocol
assert issubclass(aioice.mdns.MDnsProtocol, aioice.ice.mdns.MDnsProtocol)
"""


def fresh(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(output: str) -> list[str]:
    return next(line.split()[1:] for line in output.splitlines() if line.startswith("loaded"))


def test_connected_sides_have_loaded_no_media_no_mdns_and_no_extras() -> None:
    found = fresh(
        CONNECT, "av", "av.frame", "aioice.mdns", "dns", "torch", "pandas", "polars", "IPython", "aiortc"
    )
    assert loaded(found) == ["aiortc"]


def test_connected_sides_have_read_the_entry_points_of_packages_once() -> None:
    count = (
        "import importlib.metadata as metadata\n"
        "calls, real = [], metadata.entry_points\n"
        "metadata.entry_points = lambda **params: (calls.append(params), real(**params))[1]\n"
    )
    assert "read [{}]" in fresh(count + CONNECT + "print('read', calls)\n")


def test_connected_sides_have_loaded_no_completer_no_filelock_and_no_list_of_operations() -> None:
    lists = (
        "from duetlink.compute.operations.allow_lists.allowed import read_list\n"
        "assert read_list.cache_info().currsize == 0\n"
    )
    assert loaded(fresh(CONNECT + lists, "duetlink.duet.completion", "filelock", "aiortc")) == ["aiortc"]


def test_media_of_aiortc_work_in_the_process_of_a_duet() -> None:
    fresh(CONNECT + MEDIA)


def test_names_of_mdns_are_for_the_real_module() -> None:
    fresh(CONNECT + MDNS)


def test_aiortc_has_the_classes_of_pyav_that_was_imported_first() -> None:
    fresh("import av, duetlink.session, aiortc; assert aiortc.mediastreams.AudioFrame is av.AudioFrame")


def test_a_name_that_no_stand_in_has_is_the_real_modules() -> None:
    fresh(
        "from duetlink.net.stand_ins import AV, standing_in\n"
        "with standing_in(AV):\n"
        "    from av import AudioFrame, Codec\n"
        "import av\n"
        "assert Codec is av.Codec\n"
        "assert isinstance(av.AudioFrame(), AudioFrame)\n"
        "assert not isinstance(1, AudioFrame)\n"
        "assert type(AudioFrame(format='s16', layout='mono', samples=1)) is av.AudioFrame\n"
        "assert AudioFrame.from_ndarray == av.AudioFrame.from_ndarray\n"
    )


def test_a_stand_in_used_while_it_stands_in_is_the_real_class() -> None:
    fresh(
        "from duetlink.net.stand_ins import AV, standing_in\n"
        "with standing_in(AV):\n"
        "    from av import AudioFrame\n"
        "    made = AudioFrame(format='s16', layout='mono', samples=1)\n"
        "import av\n"
        "assert type(made) is av.AudioFrame\n"
    )


def test_a_subclass_of_a_stand_in_is_one_of_the_real_class() -> None:
    fresh(
        CONNECT
        + "import aioice.ice\n"
        + "class Protocol(aioice.ice.mdns.MDnsProtocol):\n"
        + "    def answer(self): return super().__repr__()\n"
        + "assert Protocol.__mro__[1] is aioice.mdns.MDnsProtocol\n"
        + "assert 'Protocol' in Protocol().answer()\n"
    )


def test_another_thread_imports_the_real_modules_while_others_stand_in() -> None:
    fresh(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from duetlink.net.stand_ins import AV, standing_in\n"
        "def look():\n"
        "    from av import VideoFrame\n"
        "    import av.video.frame\n"
        "    return VideoFrame is av.video.frame.VideoFrame\n"
        "with standing_in(AV), ThreadPoolExecutor(1) as pool:\n"
        "    import aiortc.mediastreams\n"
        "    assert pool.submit(look).result(60)\n"
    )


def test_a_module_for_which_another_stood_in_is_an_attribute_of_its_package() -> None:
    fresh(CONNECT + "import aioice; assert aioice.mdns.MDNS_PORT == 5353")


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_as_it_was_after_a_name_was_loaded(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        assert duetlink.__getattr__("Settings").__name__ == "Settings"
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_the_wing_alone_loads_no_library() -> None:
    # a private training in a room imports it, where nothing may be opened
    fresh("import sys, duetlink.net; assert not {'aioice', 'aiortc', 'aiohttp'} & set(sys.modules)")
