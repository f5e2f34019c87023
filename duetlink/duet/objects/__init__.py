"""Objects that are shared or given: their descriptions, their contents, and what the audit log says about
them.

| noun | meaning |
|---|---|
| asset | one revision of an object that a side shares under a name |
| description | everything that is shown of an object without a request: `AssetInfo` |
| content | the encoded object, whose fingerprint is computed once: `Content` |
| offer | a content with its name, tags, mock and budget, ready to be shared or given (`catalogue.Offer`) |
| catalogue | the assets of both sides, and what the peer gave; messages keep both sides equal |
| mock | an object of the same schema with other values, which the peer gets without a request |
| budget | how much epsilon private statistics of an asset may cost in all |
| gift | an object that `duet.send` gives to the peer, which does not ask for it |

An example. The owner runs `duet.share(ages, "ages", mock="auto")`, changes `ages`, and shares it again:

    offering.py    encodes ages and makes the mock; fingerprints are computed on other threads
    catalogue.py   share: writes the audit line, then sends AssetInfo("ages", revision 1, ...) to the peer
    catalogue.py   the second share: revision 2; requests for revision 1 are denied with the reason
                   "'ages' was shared again; ask for the new revision"
    catalogue.py   find_mine("ages", 1) raises AssetChanged from now on; find_mine("ages", 2) returns it
"""
