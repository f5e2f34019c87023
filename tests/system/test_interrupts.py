"""Ctrl-C in any wait leaves the object as it was: the same call, or another one, works afterwards.

`TRIED` and `OWN` name every place of the code in which a person's thread waits. Whoever adds one adds it
here, to a test below or with the reason why there is nothing to be tried.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.system.conftest import Kernel, MakeKernel
from tests.system.places import places

pytestmark = pytest.mark.slow

PATIENT = (
    "duetlink.Settings(heartbeat_interval_s=0.5, heartbeat_timeout_s=30, reconnect_timeout_s=30, "
    "only=('tcp',))"
)

# interrupted below, while they wait for a peer that is stopped or has not come yet
TRIED = """
    duetlink.duet.asking.requests.pending_request:PendingRequest._result
    duetlink.duet.asking.requests.pending_request:_wait
    duetlink.duet.asking.pointers.remote_session:RemoteSession.mock
    duetlink.duet.duet:Duet._wait_for
    duetlink.duet.duet:Duet.close
    duetlink.duet.duet:Duet.open_port
    duetlink.duet.duet:Duet.ping
    duetlink.duet.duet:Duet.send
    duetlink.duet.duet:Duet.wait_connected
    duetlink.groups.api.blocking:BlockingOperations._run
    duetlink.groups.api.group:Group.close
    duetlink.groups.api.group:Group.open_port
    duetlink.groups.api.group:Group._wait_members
    duetlink.groups.api.opening:_opened
    duetlink.groups.api.rounds:Rounds.finish
    duetlink.groups.api.rounds:Rounds.give
    duetlink.groups.api.rounds:Rounds.open
    duetlink.groups.torch.work:PendingWork.wait
    duetlink_gossip.courier:Courier.mix
    duetlink.session:_launch
    duetlink.session:join
"""

TURN = "a turn of this side's loop, and its own disk: it waits for no peer"
OWN = {
    "duetlink.duet.answering.policies.policies:Policies": TURN,
    "duetlink.duet.answering.requests:Request.approve": TURN,
    "duetlink.duet.answering.requests:Request.deny": TURN,
    "duetlink.duet.answering.requests:Request.fail": TURN,
    "duetlink.duet.answering.requests:Request.stop": "the end of a room of this machine's",
    "duetlink.duet.answering.requests:Request.run": "a worker of this machine, in time of its own",
    "duetlink.duet.asking.mocks.agreement:Mates._asked": "a room of this machine's, thirty seconds at most",
    "duetlink.duet.asking.requests.own_requests:OwnRequest.withdraw": TURN,
    "duetlink.duet.asking.requests.pending_request:PendingRequest.__init__": TURN,
    "duetlink.duet.asking.pointers.remote_session:RemoteSession.glance": "two seconds at most",
    "duetlink.duet.compression:SharedCompression": TURN,
    "duetlink.duet.duet:Duet.accept": "the text is taken at once; then it waits as wait_connected",
    "duetlink.duet.duet:Duet.doctor": "ten seconds at most, on a loop of its own",
    "duetlink.duet.duet:Duet.invite": "as launch, for a code of the server",
    "duetlink.duet.duet:Duet.pause": TURN,
    "duetlink.duet.duet:Duet.reconnect": TURN,
    "duetlink.duet.duet:Duet.resume": TURN,
    "duetlink.duet.duet:Duet.share": TURN,
    "duetlink.duet.duet:Duet.share_port": TURN,
    "duetlink.duet.objects.decoding:Decoding.for_threads.decode": "a thread of the loop's, not the person's",
    "duetlink.duet.objects.recorder:Recorder.settle": "its own disk, five seconds at most",
    "duetlink.duet.ports:": TURN,
    "duetlink.duet.store:": TURN,
    "duetlink.duet.transfers:": TURN,
    "duetlink.groups.api.group:Group.close_doors": TURN,
    "duetlink.groups.api.group:Group.explain": "as an operation, by Running.operate",
    "duetlink.groups.api.group:Group.post": "as an operation, by GroupLife.wait_ready",
    "duetlink.groups.api.group:Group.share_port": TURN,
    "duetlink.groups.api.group:Group.sums": "as an operation, by Running.operate",
    "duetlink.groups.links.mesh:Mesh.fail": "the result of a future that is done",
    "duetlink.groups.api.ports:GroupPort.close": TURN,
    "duetlink.groups.api.post:GroupPost": "a thread of the gossip's, not the person's; a turn of the loop",
    "duetlink.groups.torch.callbacks:Callbacks._work": "a thread for callbacks, not the person's",
    "duetlink.groups.torch.store_links:StoreLinks.cut": "the result of a future that is done",
    "duetlink.groups.torch.face:Face": "called by torch; by LoopThread.run, as all of these",
    "duetlink.groups.torch.group_store:GroupStore": "the same; answers are told apart by their numbers",
    "duetlink.groups.torch.job:TorchJob.close": "the end of a job; the next call frees what is left",
    "duetlink.groups.torch.work:PendingWork": "as PendingWork.wait",
    "duetlink_gossip.courier:Courier.close": "the end of a gossip, ten seconds at most",
}

# Others may hear only by their own next call that this member gave up: whoever does calls once more.
_TOTAL = """
def total():
    while True:
        try:
            return group.all_reduce(1, timeout_s=60)
        except duetlink.errors.OperationAborted:
            pass
"""
TOTAL = f"exec({_TOTAL!r})"  # in one line


def interrupted(waiting: Kernel, statement: str, place: str, *stopped: Kernel) -> None:
    """Have it wait at that place while others stand still, and interrupt it there."""
    for kernel in stopped:
        kernel.stop()
    try:
        assert [each for each in waiting.waits(statement) if each.endswith(place)]
        assert waiting.interrupt() == "error KeyboardInterrupt", statement
    finally:
        for kernel in stopped:
            kernel.wake()


def all_of(kernels: list[Kernel], statement: str) -> list[str]:
    """What each answers, called by all at once."""
    for kernel in kernels:
        kernel.begin(statement)
    return [kernel.answer() for kernel in kernels]


def test_every_place_where_a_thread_waits_is_named_here() -> None:
    named = set(TRIED.split())
    found = places()
    assert named <= found
    unnamed = {place for place in found - named if not place.startswith(tuple(OWN))}
    assert unnamed == set(), "try it below, or say in OWN why there is nothing to be tried"
    assert [reason for reason in OWN if not any(place.startswith(reason) for place in found)] == []


def test_waits_until_a_duet_is_connected(make_kernel: MakeKernel) -> None:
    server, owner, scientist = make_kernel(), make_kernel(), make_kernel()
    assert server.run("duet = duetlink.launch()") == "ok None"
    url = "ws://" + server.value("duet.code").strip("'").partition("@")[2]
    interrupted(owner, f"duetlink.launch(signaling={url!r})", "session:_launch", server)
    assert owner.run(f"duet = duetlink.launch(settings={PATIENT})") == "ok None"
    interrupted(owner, "duet.wait_connected()", "Duet.wait_connected")
    code = owner.value("duet.code")
    interrupted(scientist, f"duetlink.join({code}, settings={PATIENT})", "session:join", owner)
    assert scientist.run(f"duet = duetlink.join({code}, settings={PATIENT})") == "ok None"
    assert owner.run("duet.wait_connected(30)") == "ok None"
    assert owner.value("duet.ping() < 30") == "True"


def test_waits_of_a_connected_duet(make_kernel: MakeKernel) -> None:
    owner, scientist = make_kernel(), make_kernel()
    assert owner.run(f"duet = duetlink.launch(settings={PATIENT})") == "ok None"
    assert scientist.run(f"duet = duetlink.join({owner.value('duet.code')}, settings={PATIENT})") == "ok None"
    assert owner.run("duet.wait_connected(30)") == "ok None"

    interrupted(scientist, "duet.wait_object('x')", "Duet._wait_for")
    assert owner.run("duet.share(np.arange(3.0), 'x', mock='auto')") == "ok None"
    assert scientist.run("x = duet.wait_object('x', 30)") == "ok None"
    interrupted(owner, "duet.wait_request()", "Duet._wait_for")

    interrupted(scientist, "x.get()", "PendingRequest._result")  # which takes the request back
    interrupted(scientist, "asked = x.request(); asked.result()", "PendingRequest._result")  # which does not
    assert owner.run("duet.wait_request(30).approve()") == "ok None"
    assert scientist.value("asked.result(30).sum()") == "np.float64(3.0)"
    assert owner.value("[each.state for each in duet.requests]") == "['withdrawn', 'approved']"

    interrupted(scientist, "duet.ping()", "Duet.ping", owner)
    assert scientist.value("duet.ping() < 30") == "True"
    interrupted(scientist, "duet.send(np.ones(3_000_000), 'gift')", "Duet.send", owner)
    assert scientist.run("duet.send(np.ones(3_000_000), 'gift')") == "ok None"
    assert owner.value("duet.store['gift'].get().sum()") == "np.float64(3000000.0)"
    interrupted(scientist, "x + 1", "RemoteSession.mock", owner)
    assert scientist.run("y = x + 1") == "ok None"
    interrupted(scientist, "duet.check(y)", "PendingRequest._result")  # which takes the request back
    assert owner.run("duet.policies.add(duetlink.Policy('approve'))") == "ok None"
    assert scientist.value("y.get(timeout_s=30).tolist()") == "[1.0, 2.0, 3.0]"
    interrupted(scientist, "duet.fetch([y, x])", "PendingRequest._result", owner)
    assert scientist.value("duet.fetch([y, x])[0].tolist()") == "[1.0, 2.0, 3.0]"
    interrupted(scientist, "duet.open_port('shared')", "Duet.open_port", owner)
    assert owner.run("duet.share_port(9, 'shared')") == "ok None"
    assert scientist.run("duet.open_port('shared').close()") == "ok None"

    interrupted(scientist, "duet.close()", "Duet.close", owner)
    assert scientist.run("duet.close()") == "ok None"
    assert scientist.value("duet.state").startswith("'closed: this side closed the ")
    while not owner.value("duet.state").startswith("'closed: the peer closed"):
        threading.Event().wait(0.1)


def test_recorded_steps_are_asked_for_after_an_interrupt(make_kernel: MakeKernel) -> None:
    owner, scientist = make_kernel(), make_kernel()
    assert owner.run(f"duet = duetlink.launch(settings={PATIENT})") == "ok None"
    assert scientist.run(f"duet = duetlink.join({owner.value('duet.code')}, settings={PATIENT})") == "ok None"
    assert owner.run("duet.wait_connected(30); duet.share(np.arange(3.0), 'x', mock='auto')") == "ok None"
    assert scientist.run("y = duet.wait_object('x', 30) + 1") == "ok None"
    # a program that nobody answers, and one that the owner has not got when it is interrupted
    interrupted(scientist, "y = y + 1; y.get()", "PendingRequest._result")
    owner.stop()
    interrupted(scientist, "y = y + 1; y.get()", "PendingRequest._result")
    owner.wake()
    assert owner.run("duet.policies.add(duetlink.Policy('approve'))") == "ok None"
    assert scientist.value("y.get(timeout_s=60).tolist()") == "[3.0, 4.0, 5.0]"


OPERATIONS = [
    "all_gather(1)",
    "all_reduce(1)",
    "all_reduce(1, secure=True)",
    "all_to_all([1, 2, 3])",
    "average(np.ones(3))",
    "barrier()",
    "broadcast(1, 1)",
    "gather(1)",
    "recv(1)",
    "reduce(1)",
    "reduce_scatter([1, 2, 3])",
    "scatter(None, 1)",
    "send(np.ones(30_000_000), 1)",
    "sync({'x': np.ones(3)})",
]


def test_waits_of_a_group(make_kernel: MakeKernel) -> None:
    kernels = [make_kernel() for _ in range(3)]
    first, *others = kernels
    arguments = f"settings={PATIENT}, patience_s=1.0"
    assert first.run(f"group = duetlink.group(size=3, {arguments})") == "ok None"
    interrupted(first, "group.wait_ready()", "Group._wait_members")
    interrupted(first, "group.wait_members(3)", "Group._wait_members")
    code = first.value("group.code")
    interrupted(others[0], f"duetlink.group({code}, {arguments})", "opening:_opened", first)
    for kernel in others:
        assert kernel.run(f"group = duetlink.group({code}, {arguments})") == "ok None"
    assert all_of(kernels, "group.wait_ready(60)") == ["ok None"] * 3
    assert all_of(kernels, TOTAL) == ["ok None"] * 3
    for operation in OPERATIONS:
        interrupted(first, f"group.{operation}", "BlockingOperations._run", *others)
        assert all_of(kernels, "out = total()") == ["ok 3"] * 3, operation
    assert others[0].waits("group.barrier()")  # called later, it would wait for the next call of the first
    interrupted(first, "group.barrier()", "BlockingOperations._run")
    assert others[0].answer().startswith("error OperationAborted ")
    assert all_of(kernels, "out = total()") == ["ok 3"] * 3

    interrupted(first, "group.open_port('shared', 1)", "Group.open_port", *others)
    for kernel in others:
        assert kernel.run("group.share_port(9, 'shared')") == "ok None"
    assert first.run("group.open_port('shared', 1).close()") == "ok None"
    interrupted(first, "group.close()", "Group.close", *others)
    assert first.run("group.close()") == "ok None"
    assert first.value("group.state").startswith("'closed: ")


def test_waits_of_a_training(make_kernel: MakeKernel) -> None:
    kernels = [make_kernel(), make_kernel()]
    first, other = kernels
    arguments = f"settings={PATIENT}, patience_s=1.0"
    assert first.run(f"group = duetlink.group(size=2, {arguments})") == "ok None"
    assert other.run(f"group = duetlink.group({first.value('group.code')}, {arguments})") == "ok None"
    assert all_of(kernels, "group.wait_ready(60)") == ["ok None"] * 2
    made = "import torch; from duetlink.learning import Gossip, LocalSteps; model = torch.nn.Linear(2, 1)"
    assert all_of(kernels, made) == ["ok None"] * 2
    interrupted(first, "LocalSteps(model, group, every=1)", "Rounds.open")
    assert all_of(kernels, "steps = LocalSteps(model, group, every=1)") == ["ok None"] * 2
    interrupted(first, "steps.after_step()", "Rounds.give")  # its update stays given
    assert other.run("steps.after_step()") == "ok None"
    assert all_of(kernels, "steps.after_step(); out = steps.round") == ["ok 2"] * 2
    interrupted(first, "steps.close()", "Rounds.finish")
    assert all_of(kernels, "steps.close()") == ["ok None"] * 2
    assert all_of(kernels, "gossip = Gossip(model, group, patience_s=30)") == ["ok None"] * 2
    interrupted(first, "gossip.mix()", "Courier.mix")
    mixed = all_of(kernels, "out = type(gossip.mix()).__name__")
    assert mixed == ["ok 'Mixed'"] * 2
    assert all_of(kernels, "gossip.close(); out = group.all_reduce(1)") == ["ok 2"] * 2


def test_rounds_whose_opening_was_interrupted_open(make_kernel: MakeKernel) -> None:
    kernels = [make_kernel(), make_kernel()]
    first, other = kernels
    arguments = f"settings={PATIENT}, patience_s=1.0"
    assert first.run(f"group = duetlink.group(size=2, {arguments})") == "ok None"
    assert other.run(f"group = duetlink.group({first.value('group.code')}, {arguments})") == "ok None"
    assert all_of(kernels, "group.wait_ready(60)") == ["ok None"] * 2
    made = (
        "import torch; from duetlink.learning.averaging.averaged import Averaged; "
        "from duetlink.learning.averaging.flat import FlatModel; "
        "from duetlink.learning.averaging.outer import OuterStep; "
        "part = Averaged(FlatModel(torch.nn.Linear(2, 1)), updates='float32', density=0.1, "
        "outer=OuterStep(1.0, 0.0), secure=False, weight=1.0, quorum=None); rounds = group.rounds(part)"
    )
    assert all_of(kernels, made) == ["ok None"] * 2
    interrupted(first, "rounds.open()", "Rounds.open")
    assert all_of(kernels, "rounds.open(); out = rounds.number") == ["ok 0"] * 2


def test_waits_for_torchs_work(make_kernel: MakeKernel, tmp_path: Path) -> None:
    kernels = [make_kernel(), make_kernel()]
    first, other = kernels
    for rank, kernel in enumerate(kernels):
        kernel.begin(
            "import torch, torch.distributed as dist, duetlink.groups.torch; "
            f"dist.init_process_group('duetlink', store=dist.FileStore({str(tmp_path / 'store')!r}, 2), "
            f"rank={rank}, world_size=2)"
        )
    assert [kernel.answer() for kernel in kernels] == ["ok None"] * 2
    interrupted(first, "t = torch.ones(3); dist.all_reduce(t)", "PendingWork.wait")
    assert other.value("(t := torch.ones(3), dist.all_reduce(t), t.tolist())[2]") == "[2.0, 2.0, 2.0]"
    # it had begun, and has gone on: the next one meets the next one
    again = "(t := torch.full((3,), 2.0), dist.all_reduce(t), t.tolist())[2]"
    assert all_of(kernels, f"out = {again}") == ["ok [4.0, 4.0, 4.0]"] * 2
    assert all_of(kernels, "dist.destroy_process_group()") == ["ok None"] * 2
