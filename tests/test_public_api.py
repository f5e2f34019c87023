"""The public API, written out: who changes a name here changes programs and notebooks of others.

A name that is new is added here. One that goes, or is called otherwise, breaks somebody's code: CHANGELOG.md
says so.
"""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import duetlink

ROOT = Path(__file__).resolve().parent.parent

ROOT_NAMES = (
    "Budget Duet DuetError IceServer Mock Policy Prep Settings duets empty empty_like errors group join "
    "launch log_to progress"
)

# where a class is defined is not public; what `duet.store` and the like give is
MEMBERS = {
    "duetlink:Duet": (
        "accept asked audit check close code code_expires compression doctor fetch gives_up_in_s history "
        "invite invited open_port panel pause paused peer ping policies ports reconnect remote requests "
        "resume role send share share_port state statistics status store table transfers tuning verifier "
        "wait_connected wait_object wait_request watch"
    ),
    "duetlink.duet.store:Store": "mine peer received search table to_pandas",
    "duetlink.duet.store:Asset": (
        "budget description detail kind lossy mock mock_words name revision size_bytes tags unshare"
    ),
    "duetlink.duet.asking.pointers.pointer:Pointer": (
        "budget description detail duet get kind lossy mock mock_words name prep request revision "
        "size_bytes tags"
    ),
    "duetlink.duet.asking.pointers.result_requests:ResultRequests": "dp get request",
    "duetlink.duet.asking.pointers.remote:Result": "dp get mock prep request",
    "duetlink.duet.asking.functions.function:Function": "source",
    "duetlink.duet.asking.pointers.pointer:ReceivedObject": (
        "budget description detail get kind lossy mock_words name revision size_bytes tags"
    ),
    "duetlink.duet.asking.requests.pending_request:PendingRequest": (
        "log progress reason result result_or_withdraw state withdraw"
    ),
    "duetlink.duet.asking.requests.own_requests:OwnRequest": (
        "answer_reason answered asked name number reason state withdraw"
    ),
    "duetlink.duet.asking.requests.own_requests:OwnRequestTable": "pending table",
    "duetlink.duet.answering.requests:Request": (
        "answer_reason answered approve arrived asset by charges code deny expires fail failure function "
        "group like_this lineage log mock_result number operations peer preview privacy progress reason "
        "refusal run running state steps stop times"
    ),
    "duetlink.duet.answering.requests:RequestTable": "pending table to_pandas",
    "duetlink.duet.transfers:SharedTransfer": (
        "bytes_per_s can_retry cancel direction done_bytes duration_s name number path pause paused_here "
        "paused_there resume retry row size_bytes state status why wire_bytes"
    ),
    "duetlink.duet.transfers:TransferTable": "table",
    "duetlink.duet.ports:SharedPort": (
        "close closed connections host name pause paused port received_bytes refused_connections resume row "
        "sent_bytes total_connections"
    ),
    "duetlink.duet.ports:OpenPort": (
        "address close closed connections host name pause paused port received_bytes refused_connections "
        "resume row sent_bytes total_connections"
    ),
    "duetlink.duet.ports:PortTable": "table",
    "duetlink.duet.answering.policies.policies:Policies": (
        "add apply clear explain move remove replay table usage"
    ),
    "duetlink:Policy": (
        "action after announce assets code count failures hours kinds lineage log max_bytes max_elements "
        "min_group name no_other_tags operations peers prep rate reason tags total_bytes total_elements "
        "until words"
    ),
    "duetlink.duet.audit:Audit": "export filter latest_lines table verify",
    "duetlink.duet.compression:SharedCompression": (
        "available codec codecs_for last_change level lossless_only max_relative_error mode objective pin "
        "rate_cap_bytes_per_s set table undo version"
    ),
    "duetlink.duet.compression:TuningView": "decisions",
    "duetlink.net.link.traffic:Statistics": (
        "path paths received_bytes received_bytes_per_s received_wire_bytes received_wire_bytes_per_s "
        "reconnects round_trip_s sent_bytes sent_bytes_per_s sent_wire_bytes sent_wire_bytes_per_s state "
        "transfers"
    ),
    "duetlink.duet.examination:Examination": "findings json reachable rungs to_json took_s verdict",
    "duetlink:Prep": (
        "cast clip code digest drop_missing fit_private from_json missing one_hot open_columns row_stable "
        "run scale select split split_step steps strict table to_json"
    ),
    "duetlink.prep:Prepared": (
        "arrow batches column columns engine loader numpy tensor test to_parquet train"
    ),
    "duetlink.groups.api.group:Group": (
        "admit all_gather all_reduce all_to_all average awaitable barrier broadcast close close_doors code "
        "epoch explain gather members on_loss open_port panel post rank recv reduce reduce_scatter rejoin "
        "rounds scatter send share_port size state status sums sync verifier wait_members wait_ready watch"
    ),
    "duetlink.groups.lifecycle.members:Member": "name path rank state",
    "duetlink:Mock": "bounds categories from_data labels like rows seed",
    "duetlink:Budget": "bounds bounds_of epsilon rows_per_person total",
    "duetlink:IceServer": "credential from_json urls username",
    "duetlink:Settings": (
        "allow_pickle allowed_ice_servers allowed_paths answer_grid_s audit_file audit_path budget_file "
        "budget_path call_timeout_s check_on_mocks code_lifetime_s flight_port flight_ports "
        "from_environment heartbeat_interval_s heartbeat_timeout_s held_bytes ice_probe_timeout_s "
        "ice_servers inline_limit_bytes listen map_port mates max_assets max_pending_requests "
        "max_received_bytes max_value_bytes only pairing_timeout_s prepare_limit_bytes "
        "reconnect_timeout_s relay resume_grants reuse_bytes signaling signaling_port signaling_ports "
        "state_directory state_path worker_memory_bytes worker_result_bytes worker_timeout_s"
    ),
}

ERRORS = """
    AssetChanged
    AssetNotFound
    AuditBroken
    AuditUnavailable
    BudgetExceeded
    CallTimeout
    CodeUnattended
    CodeUsed
    CodecFailed
    DescriptorsShort
    DuetError
    ExtensionFailed
    GroupError
    GroupFull
    GroupOver
    IncompatiblePeer
    LimitExceeded
    LinkClosed
    LocalProtocolError
    MalformedChunk
    MalformedCode
    MalformedValue
    MissingLibrary
    NoMajority
    NoMock
    OperationAborted
    OperationFailed
    OperationMismatch
    OperationRefused
    OutOfRange
    PairingError
    PairingTimeout
    PanelUnavailable
    PathUnavailable
    PeerLost
    PeerUnreachable
    PortUnavailable
    PrepError
    PrepNotWritten
    PrivateLength
    PrivateValue
    ProgramDiffers
    PutOut
    RemoteFailure
    RemoteProtocolError
    RequestAnswered
    RequestDenied
    RequestTimeout
    RequestWithdrawn
    SecureSumFailed
    SettingError
    SignalingRefused
    SignalingUnavailable
    StateBroken
    StateInUse
    StateUnavailable
    StreamClosed
    TicketRefused
    TransferCancelled
    TransferEnded
    TransferFailed
    UndecodableChunk
    UnknownAttribute
    UnknownCode
    UnknownCodec
    UnknownPolicy
    UnsupportedValue
    ValueRefused
    WorkLimit
    WorkerUnavailable
    WrongCode
"""

# What README.md and the documents tell people to import. It stays where it is, whatever moves behind it.
DEEP = {
    "duetlink.prep": "Loader Prep Prepared",
    "duetlink.codecs": (
        "Bound Codec Compressor Decompressor Element codecs compress decode decompress element_of encode "
        "named read_header register"
    ),
    "duetlink.codecs.base": (
        "Array BYTES Bound Codec GRADIENT LOSSLESS Octets References TENSOR UnknownVersion VERSION "
        "VersionCodec array_bytes no_references"
    ),
    "duetlink.codecs.gradients": (
        "Dgc ErrorFeedback GradientCompressor PowerSgd Quantised RandomK TensorState TopK"
    ),
    "duetlink.learning": (
        "DpSgd Gossip LocalSteps Probe Spending Verdict audit most_steps noise_for share_noise"
    ),
    "duetlink.session": "join launch",
    "duetlink.settings": "IceServer Settings",
    "duetlink.testing.codecs": "CodecContract",
    "duetlink.testing.datagrams": "DatagramsContract",
    "duetlink.testing.paths": "PathContract",
    "duetlink.testing.signaling": "MailboxContract",
    "duetlink.testing.values": "ValueContract",
}


def members(cls: type) -> list[str]:
    """Public attributes, methods and fields that duetlink gives a class."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("duetlink")]
    names = {name for base in ours for name in [*vars(base), *inspect.get_annotations(base)]}
    return sorted(name for name in names if not name.startswith("_"))


def test_the_root_offers_these_names() -> None:
    assert sorted(duetlink.__all__) == ROOT_NAMES.split()
    assert all(hasattr(duetlink, name) for name in ROOT_NAMES.split())


def project(file: str = "pyproject.toml") -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / file).read_text(encoding="utf-8"))["project"])


def test_the_version_is_that_of_the_distribution() -> None:
    assert duetlink.__version__ == project()["version"]


def test_the_package_for_gossip_has_the_same_version() -> None:
    version = project()["version"]
    gossip = project("gossip/pyproject.toml")
    assert gossip["version"] == version
    assert f"duetlink=={version}" in gossip["dependencies"]
    assert project()["optional-dependencies"]["gossip"] == [f"duetlink-gossip=={version}"]


@pytest.mark.parametrize("path", MEMBERS)
def test_a_class_has_these_members(path: str) -> None:
    module, _, name = path.partition(":")
    assert members(getattr(importlib.import_module(module), name)) == MEMBERS[path].split()


def test_group_takes_these_arguments() -> None:
    assert list(inspect.signature(duetlink.group).parameters) == [
        "code",
        "size",
        "name",
        "signaling",
        "settings",
        "on_loss",
        "patience_s",
        "only",
    ]


def test_launch_and_join_take_these_arguments() -> None:
    assert list(inspect.signature(duetlink.launch).parameters) == [
        "name",
        "signaling",
        "settings",
        "resume",
        "keep",
    ]
    assert list(inspect.signature(duetlink.join).parameters) == [
        "code",
        "name",
        "signaling",
        "settings",
        "keep",
    ]


def test_the_errors_are_these() -> None:
    found = [name for name, value in vars(duetlink.errors).items() if isinstance(value, type)]
    assert sorted(found) == ERRORS.split()


@pytest.mark.parametrize("path", DEEP)
def test_what_documents_name_is_where_they_say(path: str) -> None:
    module = importlib.import_module(path)
    assert [name for name in DEEP[path].split() if not hasattr(module, name)] == []


@pytest.mark.parametrize("path", [path for path in DEEP if path.startswith("duetlink.codecs")])
def test_a_public_name_is_the_very_object_that_is_used_inside(path: str) -> None:
    public, inside = (importlib.import_module(name) for name in (path, f"duetlink.data{path[8:]}"))
    assert sorted(public.__all__) == DEEP[path].split()
    assert [name for name in public.__all__ if getattr(public, name) is not getattr(inside, name)] == []


def test_a_codec_registered_by_its_public_name_is_known_inside() -> None:
    program = """
import numpy as np
import duetlink.codecs
from duetlink.codecs.base import BYTES, Codec
class Inverted(Codec):
    number, name, kind = 0x8001, "inverted", BYTES
    def encode(self, array, element, level):
        return (~array.reshape(-1).view(np.uint8)).tobytes()
    def decode(self, payload, element, shape):
        return (~np.frombuffer(payload, np.uint8)).view(element.storage).reshape(shape)
duetlink.codecs.register(Inverted())
from duetlink.data.codecs import registry
print(registry.named("inverted") is duetlink.codecs.named("inverted"))
print(bytes(duetlink.codecs.decompress(duetlink.codecs.compress(b"a link", codec="inverted"))))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\nb'a link'\n", "")


def test_commands_and_plug_ins_are_found_under_these_names() -> None:
    assert project()["scripts"] == {"duetlink": "duetlink.tools.cli:main"}
    assert project()["entry-points"] == {
        "duetlink.panel": {"panel": "duetlink_widgets.panel:Panel"},
        "torch.distributed.backends": {"duetlink": "duetlink.groups.torch"},
    }
    assert project("gossip/pyproject.toml")["entry-points"] == {
        "duetlink.learning": {"Gossip": "duetlink_gossip.training:Gossip"}
    }
    from duetlink.data.codecs.registry import ENTRY_POINTS
    from duetlink.extensions import OPERATIONS, PATHS, VALUES
    from duetlink.learning import ENTRY_POINTS as LEARNING
    from duetlink.panel import GROUP

    assert (ENTRY_POINTS, GROUP, LEARNING) == ("duetlink.codecs", "duetlink.panel", "duetlink.learning")
    assert (PATHS, VALUES, OPERATIONS) == ("duetlink.paths", "duetlink.values", "duetlink.operations")
