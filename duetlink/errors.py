"""Every error that duetlink raises, under one root.

Each class also inherits the builtin that a user would catch. "You broke it" (`LocalProtocolError`) and "the
peer broke it" (`RemoteProtocolError`) differ in type. A message says what happened, with the values, and what
to do next. No class here carries a secret: messages may end up in a saved notebook.
"""

from __future__ import annotations

from duetlink.tracebacks import rendered


class DuetError(Exception):
    """Root of all duetlink errors."""

    def __str__(self) -> str:
        # KeyError.__str__ shows the repr of its argument; a sentence should be shown as a sentence.
        return Exception.__str__(self)

    def _render_traceback_(self) -> list[str]:
        """What IPython prints: the message is what matters, and not the frames within duetlink."""
        return rendered(self)


class SettingError(DuetError, ValueError):
    """A setting, argument or environment variable has a value that cannot be used."""


class UnknownAttribute(DuetError, AttributeError):
    """Something has no attribute of this name, or none that can be set; the message names the near ones."""


class PanelUnavailable(DuetError, RuntimeError):
    """The panel cannot be shown here; the message says what is missing. All else works without it."""


# -- pairing -----------------------------------------------------------------------------------------------


class PairingError(DuetError):
    """The two notebooks could not be paired."""


class MalformedCode(PairingError, ValueError):
    """The text is not a session code."""


class UnknownCode(PairingError, LookupError):
    """No session waits under this code: mistyped number, expired, or the other side has closed."""


class CodeUsed(PairingError, PermissionError):
    """The code has been used: a code pairs two notebooks once."""


class CodeUnattended(PairingError, LookupError):
    """Nobody waits under the code of a group just now; another member may in a moment."""


class GroupFull(PairingError, PermissionError):
    """The group has as many members as it takes; somebody may come in when one has gone."""


class WrongCode(PairingError, PermissionError):
    """The number exists but the words do not match; the code is burnt."""


class SignalingUnavailable(PairingError, ConnectionError):
    """No signaling server could be reached."""


class SignalingRefused(PairingError, PermissionError):
    """The signaling server refused: a size, rate, lifetime or number limit."""


class IncompatiblePeer(PairingError, RuntimeError):
    """The two sides speak versions of the protocol that do not overlap."""


class PeerUnreachable(PairingError, ConnectionError):
    """Both sides met at the signaling server, but no network path between them was found."""


class PairingTimeout(PairingError, TimeoutError):
    """The other side did not appear, or did not finish pairing, in time."""


# -- the link ----------------------------------------------------------------------------------------------


class LinkClosed(DuetError, ConnectionError):
    """The link is closed; the message says by whom and why. `reason` has the peer's own words, where it was
    the peer.
    """

    reason = ""


class PeerLost(LinkClosed):
    """The peer stopped answering, or a member of a group is gone.

    In a group `rank` and `name` say which member; in a duet, which has one peer, they are None and "".
    """

    def __init__(self, message: str, *, rank: int | None = None, name: str = "") -> None:
        super().__init__(message)
        self.rank = rank
        self.name = name


class StreamClosed(DuetError, ConnectionError):
    """One stream of messages is closed; the message says by whom and why. The link goes on."""


class PortUnavailable(DuetError, ConnectionError):
    """The peer shares no port of this name, or nothing can listen at a port of this machine; the
    message says which.
    """


class LocalProtocolError(DuetError, RuntimeError):
    """This side used the link in a way that it does not allow."""


class RemoteProtocolError(DuetError, ValueError):
    """The peer sent what the protocol does not allow."""


class LimitExceeded(RemoteProtocolError):
    """The peer sent more, larger or deeper than this side allows."""


class CallTimeout(DuetError, TimeoutError):
    """The peer did not answer a control message before its deadline."""


class RemoteFailure(DuetError, RuntimeError):
    """The peer failed while it handled a control message."""


class PathUnavailable(DuetError, ConnectionError):
    """One path to the peer could not be opened or broke; others may work."""


# -- values and transfers ----------------------------------------------------------------------------------


class UnsupportedValue(DuetError, TypeError):
    """An object of this type cannot travel; the message names the type and what to send instead."""


class MalformedValue(RemoteProtocolError):
    """Bytes that should hold a value do not decode to one."""


class MalformedChunk(RemoteProtocolError):
    """Bytes that should be an encoded array are cut short, altered, or were never one."""


class UnknownCodec(DuetError, LookupError):
    """No codec of this name or number is installed here."""


class CodecFailed(DuetError, RuntimeError):
    """A codec could not encode an array; the array is as it was, and can go as it is."""


class OutOfRange(DuetError, ValueError):
    """A number is beyond the range that was declared for a fixed-point sum. Nothing was clipped or sent."""


class MissingLibrary(DuetError, ImportError):
    """A value arrived whose library is not installed here."""


class ExtensionFailed(DuetError, ImportError):
    """A package that adds a path, a value type or a list of operations cannot be used; the message has it."""


class DescriptorsShort(DuetError, OSError):
    """This process is about to have as many files and sockets open as it may; the message has the numbers."""


class TransferFailed(DuetError, OSError):
    """A transfer ended before the value was complete; nothing partial is returned."""


class UndecodableChunk(TransferFailed):
    """What came encoded does not decode; it is asked for again as it is."""


class TransferCancelled(TransferFailed):
    """A transfer was cancelled by either side."""


class TransferEnded(DuetError, RuntimeError):
    """The transfer has ended already, and cannot be paused, resumed or cancelled; or it cannot be retried."""


class TicketRefused(DuetError, PermissionError):
    """The ticket is unknown, used, expired, or names another object."""


class ValueRefused(DuetError, PermissionError):
    """The peer does not take what was sent: larger than its limit, or of a library that it has not got."""


# -- the audit log -----------------------------------------------------------------------------------------


class AuditUnavailable(DuetError, OSError):
    """The audit log cannot be written or read. Nothing leaves until it can be written, or is switched off."""


class AuditBroken(DuetError, ValueError):
    """The audit log is not as it was written: changed, cut, reordered or torn. The message says where."""


# -- what launch(resume=…) keeps ---------------------------------------------------------------------------


class StateInUse(DuetError, RuntimeError):
    """Another kernel uses the state of this name; the message says which process."""


class StateBroken(DuetError, ValueError):
    """The kept state is not as it was written, or a newer version wrote it. Nothing of it was changed."""


class StateUnavailable(AuditUnavailable):
    """The kept state cannot be written or read. What has to be remembered when it leaves does not leave."""


# -- assets and requests -----------------------------------------------------------------------------------


class AssetNotFound(DuetError, KeyError):
    """No asset of this name is visible."""


class AssetChanged(DuetError, RuntimeError):
    """An asset's content is no longer the revision that was shared, or that revision is no longer shared."""


class RequestDenied(DuetError, PermissionError):
    """The owner said no. `reason` holds the owner's words, empty if none were given."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class RequestTimeout(DuetError, TimeoutError):
    """The owner has not answered in time, or the value has not arrived."""


class RequestWithdrawn(DuetError, RuntimeError):
    """The request was withdrawn before it was answered."""


class UnknownPolicy(DuetError, LookupError):
    """There is no policy of this name."""


class RequestAnswered(DuetError, RuntimeError):
    """The request has been answered or withdrawn already and cannot be answered again."""


# -- operations on pointers --------------------------------------------------------------------------------


class OperationRefused(DuetError, PermissionError):
    """An operation that may not be done with private data; the message says which, and what may be."""


class OperationFailed(DuetError, RuntimeError):
    """An operation failed on the real data at the owner; the message says which one, in the steps as made."""


class ProgramDiffers(DuetError, RuntimeError):
    """A result is something else when its program runs alone on the mocks than it is in this session, so the
    owner's value is not given; the message has both.
    """


class PrivateValue(DuetError, RuntimeError):
    """Python wants the value of something private, such as for an `if`; here only its mock is known."""


class PrivateLength(PrivateValue, TypeError):
    """Python wants the length of something private; `list(x)` asks for it, and goes on without one."""


class NoMock(DuetError, RuntimeError):
    """The object has no mock, so nothing can be done with it from afar but to ask for it."""


class WorkerUnavailable(DuetError, RuntimeError):
    """The process that works on private data cannot be started, or has ended; the message says why."""


class WorkLimit(WorkerUnavailable):
    """The work took more memory, time or room than the owner allows; its results are gone."""


class BudgetExceeded(DuetError, PermissionError):
    """The release would cost more privacy than is left in the budget; nothing was charged, nothing left."""


# -- preparation -------------------------------------------------------------------------------------------


class PrepError(DuetError, ValueError):
    """A table is not as its preparation needs it. `file`, `row` (from 0) and `column` say where, if known."""

    def __init__(self, message: str, *, file: str = "", row: int | None = None, column: str = "") -> None:
        super().__init__(message)
        self.file = file
        self.row = row
        self.column = column


class PrepNotWritten(DuetError, OSError):
    """A prepared table could not be written; what was there under its name is as it was."""


# -- groups ------------------------------------------------------------------------------------------------


class GroupError(DuetError, RuntimeError):
    """A group cannot do what was asked; the message says what happened and what to do."""


class GroupOver(GroupError, ConnectionError):
    """This member is in its group no more, or never came in; the message says why and what the way back is.

    It is no `PeerLost`: after that one the next call goes on, with who is left. After this one every call
    raises it again.
    """


class PutOut(GroupOver):
    """The group goes on without this member: it was out of reach, or broke the protocol."""


class NoMajority(GroupOver):
    """Half of the members or more are out of reach, so others may be going on without this one."""


class OperationMismatch(GroupError):
    """Two members of a group called different operations; the message names both calls and their lines."""


class OperationAborted(GroupError):
    """A member gave up an operation: interrupted, out of time, or failed. Inputs are as they were."""


class SecureSumFailed(GroupError):
    """A secure sum cannot be opened any more, or is beyond its range; the message says which.

    `ranks` and `names` are those of the members that gave garbage, where that is known (`accountable=True`).
    With `is_pair` they are two members, one of whom at least does not keep to the protocol.
    """

    def __init__(
        self,
        message: str,
        *,
        ranks: tuple[int, ...] = (),
        names: tuple[str, ...] = (),
        is_pair: bool = False,
    ) -> None:
        super().__init__(message)
        self.ranks = ranks
        self.names = names
        self.is_pair = is_pair
