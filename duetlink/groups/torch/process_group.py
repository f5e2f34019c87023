"""The face for torch up to 2.13: a `ProcessGroup` that is written in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from duetlink.errors import SettingError
from duetlink.groups.torch.backend import DuetlinkBackend
from duetlink.groups.torch.face import Face
from duetlink.groups.torch.job import TorchJob, jobs

# torch's stubs describe what C++ accepts, which is more than the arguments that torch passes to these methods
_Base: Any = dist.ProcessGroup


@dataclass(frozen=True, slots=True)
class Options:
    """The `pg_options` of this backend, for `init_process_group` and `new_group`.

    Attributes:
        allow_pickle: let torch unpickle data of other ranks, which runs code of theirs.
        as_backend: be a torch `Backend`, which torch 2.14 supports, instead of a `ProcessGroup`.
    """

    allow_pickle: bool = False
    as_backend: bool = False


def create(options: Any, backend_options: Options | None = None) -> DuetlinkProcessGroup | DuetlinkBackend:
    """Make a process group; torch calls this in `init_process_group("duetlink")` and `new_group`.

    Raises SettingError if `backend_options` are those of another backend, GroupError if ranks do not come.
    """
    ranks = list(options.global_ranks_in_group)
    if not ranks:  # the group of all ranks
        jobs.begin(options.store, options.group_rank, options.group_size)
        ranks = list(range(options.group_size))
    elif not jobs.begun:  # the group of all ranks belongs to another backend
        store = dist.distributed_c10d._get_default_store()
        jobs.begin(store, dist.get_rank(), dist.get_world_size())
    allow_pickle = jobs.current.settings.allow_pickle
    kind: type[DuetlinkProcessGroup | DuetlinkBackend] = DuetlinkProcessGroup
    if backend_options is not None:
        if not isinstance(backend_options, Options):
            raise SettingError(
                f"pg_options is a {type(backend_options).__name__}: this backend takes "
                "duetlink.groups.torch.Options"
            )
        allow_pickle = backend_options.allow_pickle
        kind = DuetlinkBackend if backend_options.as_backend else DuetlinkProcessGroup
    return kind(jobs.current, options, ranks, allow_pickle=allow_pickle)


def needs_consent(group: Any) -> bool:
    """Return True for a group of duetlink's in which pickles of other ranks must not be read."""
    if not isinstance(group, Face):
        try:
            group = group._get_backend(torch.device("cpu"))
        except RuntimeError:  # it has none for the CPU
            return False
    return isinstance(group, Face) and not group.allow_pickle


class DuetlinkProcessGroup(Face, _Base):  # type: ignore[misc]
    """A process group as a `ProcessGroup`. `create` makes one on all of its ranks."""

    def __init__(self, job: TorchJob, options: Any, ranks: Sequence[int], *, allow_pickle: bool) -> None:
        _Base.__init__(self, options.group_rank, options.group_size)
        self._group_name = str(options.group_id)
        self._group_desc = ""
        self._begin(job, options, ranks, allow_pickle=allow_pickle)

    def setGroupName(self, name: str) -> None:  # noqa: N802 - torch's
        self._group_name = name

    def getGroupName(self) -> str:  # noqa: N802
        return self._group_name

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        self._group_desc = description

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._group_desc

    @property
    def group_name(self) -> str:
        return self._group_name

    @property
    def group_desc(self) -> str:
        return self._group_desc
