"""A laptop that sleeps for longer than the limits: each side says so, and how to go on."""

from __future__ import annotations

import threading

import pytest

from tests.system.conftest import Kernel, MakeKernel

pytestmark = pytest.mark.slow

QUICK = (
    "duetlink.Settings(heartbeat_interval_s=0.2, heartbeat_timeout_s=1.5, reconnect_timeout_s=1.5, "
    "only=('tcp',))"
)
ASLEEP_S = 4.0  # longer than both limits


def becomes(kernel: Kernel, name: str, state: str) -> str:
    """Wait until it is in such a state, bounded by the test's timeout."""
    while not (found := kernel.value(f"{name}.state").strip("'\"")).startswith(state):
        threading.Event().wait(0.1)
    return found


@pytest.mark.parametrize("sleeper", ["owner", "scientist"])
def test_each_side_of_a_duet_says_who_slept_and_how_to_go_on(make_kernel: MakeKernel, sleeper: str) -> None:
    owner, scientist = make_kernel(), make_kernel()
    assert owner.run(f"duet = duetlink.launch(settings={QUICK}, resume='clinic')") == "ok None"
    code = owner.value("duet.code")
    assert scientist.run(f"duet = duetlink.join({code}, settings={QUICK})") == "ok None"
    assert owner.run("duet.wait_connected(30)") == "ok None"
    asleep, awake = (owner, scientist) if sleeper == "owner" else (scientist, owner)
    asleep.waits("duet.wait_object('never')")
    asleep.stop()
    said = {awake: becomes(awake, "duet", "closed")}
    threading.Event().wait(ASLEEP_S)
    asleep.wake()
    ended = asleep.answer()
    said[asleep] = becomes(asleep, "duet", "closed")
    assert ended.removeprefix("error PeerLost ") == said[asleep].removeprefix("closed: ")
    assert said[asleep].startswith("closed: this machine slept or was blocked for ")
    assert "did not come back within 1.5 s (reconnect_timeout_s)" in said[asleep]
    assert said[awake].startswith("closed: the peer has been silent for ")
    assert "its machine may sleep" in said[awake]
    assert said[owner].endswith("duetlink.launch(resume='clinic') brings back what is kept, with a new code")
    assert "duetlink.join(code), with a new code of the owner's" in said[scientist]
    # and that is the way back
    assert owner.run(f"duet = duetlink.launch(settings={QUICK}, resume='clinic')") == "ok None"
    code = owner.value("duet.code")
    assert scientist.run(f"duet = duetlink.join({code}, settings={QUICK}); duet.ping()") == "ok None"


def test_a_member_that_slept_says_so_and_the_others_go_on(make_kernel: MakeKernel) -> None:
    kernels = [make_kernel() for _ in range(3)]
    arguments = f"settings={QUICK}, patience_s=0.5"
    assert kernels[0].run(f"group = duetlink.group(size=3, name='ann', {arguments})") == "ok None"
    code = kernels[0].value("group.code")
    for name, kernel in zip(("ben", "carl"), kernels[1:], strict=True):
        assert kernel.run(f"group = duetlink.group({code}, name='{name}', {arguments})") == "ok None"
    for kernel in kernels:
        assert kernel.run("group.wait_ready(60)") == "ok None"
    *others, asleep = kernels
    asleep.waits("group.barrier()")
    asleep.stop()
    for kernel in others:
        kernel.begin("group.barrier()")
    assert [kernel.answer().split(" (")[1] for kernel in others] == ["carl) is lost"] * 2
    threading.Event().wait(ASLEEP_S)
    asleep.wake()
    assert asleep.answer().startswith("error ")
    assert becomes(asleep, "group", "closed").startswith("closed: this machine slept or was blocked for ")
    for kernel in others:
        kernel.begin("out = group.all_reduce(1)")
    assert [kernel.answer() for kernel in others] == ["ok 2", "ok 2"]


PLACES = (
    "sum(box.waits_for is not None for box in "
    "shared_endpoint._hosting._server._server.mailboxes._open.values())"
)


def test_a_duet_survives_a_sleep_beside_another_kernels_signaling_server(make_kernel: MakeKernel) -> None:
    settings = QUICK.replace("reconnect_timeout_s=1.5", "reconnect_timeout_s=60")
    owner, scientist, other = make_kernel(), make_kernel(), make_kernel()
    assert owner.run(f"duet = duetlink.launch(settings={settings})") == "ok None"
    assert other.run("from duetlink.net.link.shared_endpoint import shared_endpoint") == "ok None"
    assert other.run("duet = duetlink.launch()") == "ok None"
    code = owner.value("duet.code")
    assert scientist.run(f"duet = duetlink.join({code}, settings={settings})") == "ok None"
    assert owner.run("duet.wait_connected(30); duet.share(1, 'one')") == "ok None"
    owner.stop()
    becomes(scientist, "duet", "reconnecting")
    # as after half a minute without an answer, when WebRTC has given the connection up
    expired = (
        "from duetlink.testing.faults import link_of, run_inside; "
        "run_inside(duet, link_of(duet)._reconnector._connection.close())"
    )
    assert scientist.run(expired) == "ok None"
    while other.value(PLACES) == "0":  # until the scientist waits there
        threading.Event().wait(0.1)
    owner.wake()
    for kernel in (owner, scientist):
        becomes(kernel, "duet", "connected")
    assert scientist.run("out = duet.wait_object('one', 30).name") == "ok 'one'"


def test_a_new_kernel_takes_the_place_of_one_that_was_killed(make_kernel: MakeKernel) -> None:
    settings = QUICK.replace("reconnect_timeout_s=1.5", "reconnect_timeout_s=60")
    owner, first, second = make_kernel(), make_kernel(), make_kernel()
    assert owner.run(f"duet = duetlink.launch(settings={settings})") == "ok None"
    assert owner.run("duet.share(np.arange(3), 'x', mock=np.ones(3, int))").startswith("ok ")
    join = "duet = duetlink.join({}, name='Ada', settings={}); x = duet.wait_object('x', 30)"
    assert first.run(join.format(owner.value("duet.code"), settings)) == "ok None"
    assert first.run("asked = x.request(reason='all of it')") == "ok None"
    assert owner.run("request = duet.wait_request(30)") == "ok None"
    first.process.kill()
    becomes(owner, "duet", "reconnecting")
    assert owner.run("duet.invite()") == "ok None"
    assert second.run(join.format(owner.value("duet.code"), settings)) == "ok None"
    becomes(owner, "duet", "connected")
    assert owner.run("request.approve()") == "ok None"
    assert second.run("out = x.get(reason='all of it', timeout_s=30).tolist()") == "ok [0, 1, 2]"
    assert owner.value("len(duet.requests)") == "1"
