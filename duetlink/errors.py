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
        """Return the lines that IPython prints: the message and the user's frames, without duetlink's own."""
        return rendered(self)


class SettingError(DuetError, ValueError):
    """A setting, argument or environment variable has a value that cannot be used."""


class UnknownAttribute(DuetError, AttributeError):
    """An object has no attribute of this name, or it cannot be set; the message suggests similar names."""


class PanelUnavailable(DuetError, RuntimeError):
    """The panel cannot be shown here; the message says what is missing. Everything else works without it."""


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
    """No member of the group waits under its code at the moment; try again in a moment."""


class GroupFull(PairingError, PermissionError):
    """The group has its full number of members; a place becomes free when a member leaves."""


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
    """The link is closed; the message says by whom and why.

    `reason` has the peer's own words if the peer closed it, else it is empty.
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
    """This side used the link in a way that the protocol does not allow."""


class RemoteProtocolError(DuetError, ValueError):
    """The peer sent a message that the protocol does not allow."""


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
    """Bytes that should be an encoded array are incomplete, altered, or something else."""


class UnknownCodec(DuetError, LookupError):
    """No codec of this name or number is installed here."""


class CodecFailed(DuetError, RuntimeError):
    """A codec could not encode an array. The array is unchanged, and can be sent unencoded."""


class OutOfRange(DuetError, ValueError):
    """A number is outside the range declared for a fixed-point sum. Nothing was clipped or sent."""


class MissingLibrary(DuetError, ImportError):
    """A value arrived whose library is not installed here."""


class ExtensionFailed(DuetError, ImportError):
    """A package with a path, a value type or a list of operations cannot be used; the message names it."""


class DescriptorsShort(DuetError, OSError):
    """This process is close to its limit of open files and sockets; the message has the numbers."""


class TransferFailed(DuetError, OSError):
    """A transfer ended before the value was complete; nothing partial is returned."""


class UndecodableChunk(TransferFailed):
    """An encoded chunk cannot be decoded; it is requested again without encoding."""


class TransferCancelled(TransferFailed):
    """A transfer was cancelled by either side."""


class TransferEnded(DuetError, RuntimeError):
    """The transfer has ended and cannot be paused, resumed or cancelled; or it cannot be retried."""


class TicketRefused(DuetError, PermissionError):
    """The ticket is unknown, used, expired, or names another object."""


class ValueRefused(DuetError, PermissionError):
    """The peer does not accept the value: larger than its limit, or of a library that it does not have."""


# -- the audit log -----------------------------------------------------------------------------------------


class AuditUnavailable(DuetError, OSError):
    """The audit log cannot be written or read. Nothing is released until it can, or is switched off."""


class AuditBroken(DuetError, ValueError):
    """The audit log was changed, cut, reordered or torn after it was written. The message says where."""


# -- state kept by launch(resume=…) ------------------------------------------------------------------------


class StateInUse(DuetError, RuntimeError):
    """Another kernel uses the state of this name; the message says which process."""


class StateBroken(DuetError, ValueError):
    """The kept state is damaged, or a newer version wrote it. Nothing in it was changed."""


class StateUnavailable(AuditUnavailable):
    """The kept state cannot be written or read. Nothing is released that would have to be recorded there."""


# -- assets and requests -----------------------------------------------------------------------------------


class AssetNotFound(DuetError, KeyError):
    """No asset of this name is visible."""


class AssetChanged(DuetError, RuntimeError):
    """An asset's content is no longer the revision that was shared, or that revision is no longer shared."""


class RequestDenied(DuetError, PermissionError):
    """The owner denied the request. `reason` has the owner's words, empty if none were given."""

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
    """An operation is not permitted on private data; the message says which, and what is permitted."""


class OperationFailed(DuetError, RuntimeError):
    """An operation failed on the real data at the owner; the message says which step."""


class ProgramDiffers(DuetError, RuntimeError):
    """A result differs between this session and a separate run of its program on the mocks.

    The owner's value is held back, since the program may lack a step. The message has both results.
    """


class PrivateValue(DuetError, RuntimeError):
    """Python needs a private value, for example for an `if`; on this side only its mock is known."""


class PrivateLength(PrivateValue, TypeError):
    """Python needs a private length. It is a TypeError too, since `list(x)` then goes on without a length."""


class NoMock(DuetError, RuntimeError):
    """The object has no mock, so it can only be requested; operations on it are not possible."""


class WorkerUnavailable(DuetError, RuntimeError):
    """The process that works on private data cannot be started, or has ended; the message says why."""


class WorkLimit(WorkerUnavailable):
    """The work took more memory, time or disk space than the owner allows; its results are gone."""


class BudgetExceeded(DuetError, PermissionError):
    """The release would cost more than is left of the privacy budget; nothing was charged or released."""


# -- preparation -------------------------------------------------------------------------------------------


class PrepError(DuetError, ValueError):
    """A table does not fit its preparation. `file`, `row` (from 0) and `column` say where, if known."""

    def __init__(self, message: str, *, file: str = "", row: int | None = None, column: str = "") -> None:
        super().__init__(message)
        self.file = file
        self.row = row
        self.column = column


class PrepNotWritten(DuetError, OSError):
    """A prepared table could not be written; an existing file of that name is unchanged."""


# -- groups ------------------------------------------------------------------------------------------------


class GroupError(DuetError, RuntimeError):
    """A group cannot do what was asked; the message says what happened and what to do."""


class GroupOver(GroupError, ConnectionError):
    """This member is no longer in its group, or never was; the message says why and how to come back.

    Every later call raises it again. That differs from `PeerLost`, after which the next call continues with
    the remaining members.
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
    """A secure sum can no longer be opened, or is outside its range; the message says which.

    `ranks` and `names` are those of the members that sent invalid data, if that is known
    (`accountable=True`). If `is_pair` is true, they are two members of which at least one broke the protocol.
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
