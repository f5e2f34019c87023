"""What is known of an object without its content, as JSON: of an asset, or of a result that was asked for."""

from __future__ import annotations

from typing import Any

from duetlink.compute.operations.lineage import Lineage
from duetlink.duet.objects.asset import AssetInfo
from duetlink.duet.objects.kept_asset import KeptAsset
from duetlink.duet.state.fields import Fields

_MAX_CODE = 20_000  # characters; the digest is of all of it


def asset_to_json(asset: KeptAsset) -> dict[str, Any]:
    return {
        "info": info_to_json(asset.info),
        "fingerprint": asset.fingerprint,
        "shared": asset.shared,
    }


def asset_from_json(record: object) -> KeptAsset:
    """Raises ValueError."""
    fields = Fields(record)
    found = KeptAsset(info_from_json(fields.inner("info")), fields.text("fingerprint"), fields.flag("shared"))
    fields.end()
    return found


def info_to_json(info: AssetInfo) -> dict[str, Any]:
    """All but the budget, which the ledger knows."""
    made = info.lineage
    return {
        "name": info.name,
        "revision": info.revision,
        "kind": info.kind,
        "detail": info.detail,
        "size_bytes": info.size_bytes,
        "description": info.description,
        "tags": info.tags,
        "lossy": info.lossy,
        "mock": info.mock,
        "elements": info.elements,
        "group": info.group,
        "fingerprint": info.fingerprint,
        "common_tags": info.common_tags,
        "lineage": None
        if made is None
        else {
            "assets": made.assets,
            "operations": made.operations,
            "steps": made.steps,
            "code": made.code if len(made.code) <= _MAX_CODE else made.code[: _MAX_CODE - 1] + "…",
            "digest": made.digest,
            "expression": made.expression,
            "preparations": made.preparations,
        },
    }


def info_from_json(record: object) -> AssetInfo:
    """Raises ValueError."""
    fields = Fields(record)
    lineage = fields.inner("lineage")
    # records of version 0.1 have none, and operations among the tags of results: these satisfy no policy
    unknown = None if lineage is None else ()
    info = AssetInfo(
        fields.text("name"),
        fields.whole("revision"),
        fields.text("kind"),
        fields.text("detail"),
        fields.whole("size_bytes"),
        fields.text("description"),
        fields.texts("tags"),
        fields.text("lossy"),
        fields.text("mock"),
        elements=fields.whole_or_none("elements"),
        lineage=None if lineage is None else _lineage(lineage),
        group=fields.whole_or_none("group"),
        fingerprint=fields.text("fingerprint"),
        common_tags=fields.texts_or_none("common_tags") if fields.has("common_tags") else unknown,
    )
    fields.end()
    return info


def _lineage(record: object) -> Lineage:
    fields = Fields(record)
    assets = []
    for asset in fields.items("assets"):
        if type(asset) is not list or [type(part) for part in asset] != [str, int]:
            raise ValueError("a result was made from something that is no asset")
        assets.append((asset[0], asset[1]))
    found = Lineage(
        tuple(assets),
        fields.texts("operations"),
        fields.whole("steps"),
        fields.text("code"),
        fields.text("digest"),
        fields.text("expression"),
        # records of before have none: these satisfy no policy that names one
        fields.texts("preparations") if fields.has("preparations") else (),
    )
    fields.end()
    return found
