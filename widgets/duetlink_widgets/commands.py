"""Run the commands of the panel through the public methods of the duet; the panel has no other authority.

Commands block, and are called on a thread of their own. To add one, write a function and enter it in COMMANDS
and in the contract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from duetlink import Duet
from duetlink.duet.answering.requests import Request
from duetlink.duet.asking.requests.own_requests import OwnRequest
from duetlink.duet.objects.preview import preview_text
from duetlink.duet.store import look
from duetlink.errors import RequestAnswered, SettingError
from duetlink_widgets import audit
from duetlink_widgets.contract import Foreign, PolicyDraft, RequestDetail

Args = Mapping[str, Any]
_LONGEST_LOOK = 4000  # characters


def run(duet: Duet, name: object, args: object) -> Any:
    """Run a command and return its result.

    Raises:
        SettingError: there is no such command, or its arguments are invalid.
        DuetError: any error of the method that it calls.
    """
    command = COMMANDS.get(name) if isinstance(name, str) else None
    if command is None or not isinstance(args, Mapping):
        raise SettingError(f"the panel knows no command {name!r}; reload the page if duetlink was updated")
    return command(duet, args)


def _approve(duet: Duet, args: Args) -> None:
    _seen(duet, args).approve()


def _seen(duet: Duet, args: Args) -> Request:
    """Return the request; raise RequestAnswered unless it still has the revision that the user saw."""
    request = duet.requests[_number(args)]
    if request.asset.revision != args.get("revision"):
        raise RequestAnswered(f"request {request.number} has changed since it was shown; review it again")
    return request


def _run_request(duet: Duet, args: Args) -> None:
    _seen(duet, args).run()


def _fail(duet: Duet, args: Args) -> None:
    duet.requests[_number(args)].fail(_text(args, "tell"))


def _deny(duet: Duet, args: Args) -> None:
    duet.requests[_number(args)].deny(args.get("reason", ""))


def _request_detail(duet: Duet, args: Args) -> dict[str, Any]:
    request = duet.requests[_number(args)]
    return asdict(
        RequestDetail(
            request.number,
            request.asset.revision,
            Foreign(request.reason),
            request.asset.description,
            list(request.asset.tags),
            _preview(request),
            Foreign(request.code.source),
            request.group,
            Foreign(str(request.log)),
        )
    )


def _preview(request: Request) -> str:
    try:
        return request.preview()
    except Exception as error:  # the other details are shown in any case
        return f"not shown: {type(error).__name__}: {error}"


def _policy_like(duet: Duet, args: Args) -> dict[str, Any]:
    policy = duet.requests[_number(args)].like_this(count=args.get("count"))
    assert policy.count is not None
    assert policy.until is not None
    return asdict(PolicyDraft(policy.name, policy.words(), policy.count, policy.until.timestamp()))


def _add_policy_like(duet: Duet, args: Args) -> None:
    duet.policies.add(_seen(duet, args).like_this(count=args.get("count")))


def _own(duet: Duet, args: Args) -> OwnRequest:
    number = _number(args)
    for request in duet.asked:
        if request.number == number:
            return request
    raise SettingError(f"request {number} of this side is not kept any more; duet.asked has the latest")


def _shared_detail(duet: Duet, args: Args) -> str:
    """Return a preview of a shared object's mock, or of an object that was given without a mock."""
    shown = look(duet.store, _text(args, "whose"), _text(args, "name"))
    return preview_text(shown, _LONGEST_LOOK)


def _set_compression(duet: Duet, args: Args) -> None:
    duet.compression.set(**args)


def _retry(duet: Duet, args: Args) -> None:
    duet.transfers[_number(args)].retry()


def _text(args: Args, name: str) -> str:
    text = args.get(name, "")
    if not isinstance(text, str):
        raise SettingError(f"the panel sent {name} {text!r}, which is not a text")
    return text


def _number(args: Args) -> int:
    number = args.get("number")
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise SettingError(f"the panel sent number {number!r}, which is not a valid number")
    return number


COMMANDS: dict[str, Callable[[Duet, Args], Any]] = {
    "approve": _approve,
    "run_request": _run_request,
    "stop_request": lambda duet, args: duet.requests[_number(args)].stop(),
    "fail": _fail,
    "deny": _deny,
    "request_detail": _request_detail,
    "policy_like": _policy_like,
    "add_policy_like": _add_policy_like,
    "withdraw": lambda duet, args: _own(duet, args).withdraw(),
    "shared_detail": _shared_detail,
    "remove_policy": lambda duet, args: duet.policies.remove(str(args.get("name"))),
    "audit": lambda duet, args: audit.page(duet, _text(args, "text"), _text(args, "kind")),
    "verify_audit": lambda duet, args: str(duet.audit.verify()),
    "export_audit": lambda duet, args: audit.export(duet, _text(args, "ending")),
    "set_compression": _set_compression,
    "undo_compression": lambda duet, args: duet.compression.undo(),
    "pause": lambda duet, args: duet.pause(),
    "resume": lambda duet, args: duet.resume(),
    "pause_transfer": lambda duet, args: duet.transfers[_number(args)].pause(),
    "resume_transfer": lambda duet, args: duet.transfers[_number(args)].resume(),
    "cancel_transfer": lambda duet, args: duet.transfers[_number(args)].cancel(),
    "retry_transfer": _retry,
    "reconnect": lambda duet, args: duet.reconnect(),
    "invite": lambda duet, args: duet.invite(),
    "disconnect": lambda duet, args: duet.close("disconnected in the panel"),
}
