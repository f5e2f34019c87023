"""The JSON record of an object's description: of an asset, or of a result that was asked for."""

from __future__ import annotations

from typing import Any

import msgspec

from duetlink.base.wire.json_ import Whole
from duetlink.compute.operations.lineage import Lineage
from duetlink.duet.objects.asset import AssetInfo
from duetlink.duet.objects.kept_asset import KeptAsset

_MAX_CODE = 20_000  # characters; the digest is of all of it


class _Made(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The record of a `Lineage`."""

    assets: tuple[tuple[str, int], ...]
    operations: tuple[str, ...]
    steps: Whole
    code: str
    digest: str
    expression: str
    # older records have none, and match no policy that names one
    preparations: tuple[str, ...] = ()


class InfoRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The record of an `AssetInfo`, except its budget, which is in the ledger."""

    name: str
    revision: Whole
    kind: str
    detail: str
    size_bytes: Whole
    description: str
    tags: tuple[str, ...]
    lossy: str
    mock: str
    elements: Whole | None
    group: Whole | None
    fingerprint: str
    lineage: _Made | None
    # results of version 0.1 have none, and operations among their tags; they match no policy with tags
    common_tags: tuple[str, ...] | msgspec.UnsetType | None = msgspec.UNSET

    def info(self) -> AssetInfo:
        fields = msgspec.structs.asdict(self)
        if self.lineage is not None:
            fields["lineage"] = Lineage(**msgspec.structs.asdict(self.lineage))
        if self.common_tags is msgspec.UNSET:
            fields["common_tags"] = None if self.lineage is None else ()
        return AssetInfo(**fields)


class AssetRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The record of a `KeptAsset`."""

    info: InfoRecord
    fingerprint: str
    shared: bool


def asset_to_json(asset: KeptAsset) -> dict[str, Any]:
    return {
        "info": info_to_json(asset.info),
        "fingerprint": asset.fingerprint,
        "shared": asset.shared,
    }


def asset_from_json(record: object) -> KeptAsset:
    """Read a record. Raises ValueError."""
    found = msgspec.convert(record, AssetRecord)
    return KeptAsset(found.info.info(), found.fingerprint, found.shared)


def info_to_json(info: AssetInfo) -> dict[str, Any]:
    fields = {name: getattr(info, name) for name in InfoRecord.__struct_fields__}
    if (made := info.lineage) is not None:
        lineage = {name: getattr(made, name) for name in _Made.__struct_fields__}
        if len(made.code) > _MAX_CODE:
            lineage["code"] = made.code[: _MAX_CODE - 1] + "…"
        fields["lineage"] = lineage
    return fields
