"""What a question of the peer's is about: an asset, what a program makes, or what a function makes."""

from __future__ import annotations

from dataclasses import dataclass

from duetlink.base.wire import schema_pb2 as pb
from duetlink.duet.answering.job import Job
from duetlink.duet.answering.job_intake import JobIntake
from duetlink.duet.objects.asset import AssetInfo, Content
from duetlink.duet.objects.catalogue import Catalogue
from duetlink.errors import RemoteProtocolError
from duetlink.net.link.link import Link


@dataclass(frozen=True, slots=True)
class Arrival:
    info: AssetInfo
    content: Content | None  # None: the job has to be run first
    job: Job | None = None


class Arrivals:
    """Belongs to the loop thread."""

    def __init__(self, catalogue: Catalogue, intake: JobIntake) -> None:
        self._catalogue = catalogue
        self._intake = intake

    def attach(self, link: Link) -> None:
        self._intake.attach(link)

    async def take(self, ask: pb.Ask) -> Arrival:
        """It as it is now, before anybody has decided. A statistic's budget has been charged. Nothing has
        been run for it.

        Raises RemoteProtocolError for a question that asks for several things, else as `JobIntake.program`,
        `JobIntake.function`, `Catalogue.find_mine`.
        """
        kinds = (ask.HasField("program"), ask.HasField("job"), bool(ask.name))
        if sum(kinds) > 1 or ((ask.statistic or ask.check) and not kinds[0]):
            raise RemoteProtocolError("a question asks for several things at once, or for part of nothing")
        if ask.HasField("program"):
            job: Job = await self._intake.program(ask.program, ask.statistic, ask.check)
        elif ask.HasField("job"):
            job = await self._intake.function(ask.job)
        else:
            asset = self._catalogue.find_mine(ask.name, ask.revision)
            return Arrival(asset.info, asset.content)
        return Arrival(job.info, None, job)
