"""What a question of the peer's is about: an asset, a result of its steps, a statistic, or a function."""

from __future__ import annotations

from dataclasses import dataclass

from duetlink.base.wire import schema_pb2 as pb
from duetlink.duet.answering.job import Job
from duetlink.duet.answering.job_intake import JobIntake
from duetlink.duet.answering.workplace import Workplace
from duetlink.duet.objects.asset import AssetInfo, Content
from duetlink.duet.objects.catalogue import Catalogue
from duetlink.duet.objects.decoding import Decoding
from duetlink.net.link.link import Link


@dataclass(frozen=True, slots=True)
class Arrival:
    info: AssetInfo
    content: Content | None  # None: the function has to be run first
    job: Job | None = None


class Arrivals:
    """Belongs to the loop thread."""

    def __init__(
        self, catalogue: Catalogue, workplace: Workplace, intake: JobIntake, decoding: Decoding
    ) -> None:
        self._catalogue = catalogue
        self._workplace = workplace
        self._intake = intake
        self._decoding = decoding

    def attach(self, link: Link) -> None:
        self._intake.attach(link)

    async def take(self, ask: pb.Ask) -> Arrival:
        """It as it is now, before anybody has decided. A statistic's budget has been charged.

        Raises as `Workplace.release`, `JobIntake.take`, `Workplace.freeze`, `Catalogue.find_mine`.
        """
        if ask.statistic:
            statistic = await self._workplace.release(ask.result, ask.statistic)
            statistic.content.decode = self._decoding.for_threads()
            return Arrival(statistic.info, statistic.content)
        if ask.HasField("job"):
            job = await self._intake.take(ask.job)
            return Arrival(job.info, None, job)
        if not ask.result:
            asset = self._catalogue.find_mine(ask.name, ask.revision)
            return Arrival(asset.info, asset.content)
        result = await self._workplace.freeze(ask.result)
        result.content.decode = self._decoding.for_threads()
        return Arrival(result.info, result.content)
