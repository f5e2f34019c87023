"""Host copies of what `average` and `sync` take: arrays and dicts of them, and models on accelerators."""

from __future__ import annotations

from typing import Any

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.accelerators.copy_stream import on_accelerator
from duetlink.data.accelerators.host_copies import HostCopies
from duetlink.groups.collectives import averaging


def to_host(copies: HostCopies, value: Any) -> Any:
    """Return the value with host copies in place of tensors on accelerators; of such a model, its state.

    Raises UnsupportedValue as `averaging.state_of`.
    """
    if averaging.is_model(value) and any(map(on_accelerator, value.state_dict().values())):
        return copies.to_host(averaging.state_of(value))
    return copies.to_host(value)


async def to_device(copies: HostCopies, found: Any, given: Any, value: Any) -> Any:
    """Return a result for `given`, which `to_host` returned for `value`; that of a model is written into it.

    Raises UnsupportedValue if it does not fit the model, which is unchanged then.
    """
    if given is value or not averaging.is_model(value):
        return await copies.to_device(found, given)
    averaging.check_fits(given, found)
    changed = {name: host for name, host in given.items() if found[name] is not host}

    def fill() -> None:
        for name, host in changed.items():
            host.copy_(found[name])

    await off_loop(sum(host.nbytes for host in changed.values()), fill)
    await copies.write(changed)
    return value
