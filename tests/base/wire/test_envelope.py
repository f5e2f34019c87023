from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink import errors
from duetlink.base.wire import failures
from duetlink.base.wire import schema_pb2 as pb
from duetlink.base.wire.envelope import pack, unpack
from duetlink.errors import RemoteProtocolError


def test_a_call_comes_out_as_it_went_in() -> None:
    envelope, body = unpack(pack(pb.Bye(reason="done"), call_id=7, deadline_s=1.5))
    assert (envelope.id, envelope.reply_to, envelope.deadline_ms) == (7, 0, 1500)
    assert body == pb.Bye(reason="done")


def test_an_empty_body_keeps_its_kind() -> None:
    _, body = unpack(pack(pb.Ping(), call_id=1))
    assert isinstance(body, pb.Ping)


def test_an_envelope_without_a_body_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="update duetlink"):
        unpack(pb.Envelope(id=3).SerializeToString())


@given(st.binary(max_size=500))
def test_garbage_is_refused_or_read_but_never_crashes(data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        unpack(data)


@given(st.binary(max_size=40), st.integers(0, 200))
def test_a_damaged_envelope_never_crashes(noise: bytes, position: int) -> None:
    data = pack(pb.Ask(request_id=bytes(16), name="patients", reason="a model", path="tcp"), call_id=1)
    with contextlib.suppress(RemoteProtocolError):
        unpack(data[:position] + noise + data[position + len(noise) :])


@pytest.mark.parametrize(
    ("error", "arrives_as"),
    [
        (errors.AssetNotFound("no 'x'"), errors.AssetNotFound),
        (errors.AssetChanged("changed"), errors.AssetChanged),
        (errors.TicketRefused("used"), errors.TicketRefused),
        (errors.PathUnavailable("shared memory is full"), errors.PathUnavailable),
        (errors.ValueRefused("too large"), errors.ValueRefused),
        (errors.TransferCancelled("stopped"), errors.TransferCancelled),
        (errors.LimitExceeded("256 calls"), errors.LocalProtocolError),
        (errors.RemoteProtocolError("garbage"), errors.LocalProtocolError),
    ],
)
def test_errors_keep_their_type_and_text(error: Exception, arrives_as: type[Exception]) -> None:
    arrived = failures.from_wire(failures.to_wire(error))
    assert type(arrived) is arrives_as
    assert str(error) in str(arrived)


def test_a_denial_keeps_the_owners_words() -> None:
    arrived = failures.from_wire(failures.to_wire(errors.RequestDenied("denied", "not for this study")))
    assert isinstance(arrived, errors.RequestDenied)
    assert arrived.reason == "not for this study"


def test_a_foreign_exception_leaks_nothing() -> None:
    failure = failures.to_wire(ValueError("patient 17 has blood group AB"))
    assert "17" not in str(failure)
    assert type(failures.from_wire(failure)) is errors.RemoteFailure
