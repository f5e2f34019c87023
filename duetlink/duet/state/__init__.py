"""What `launch(resume=…)` keeps on the owner's disk: descriptions, policies, requests, grants. No content of
assets; of a request that waits for a run, what the peer has sent with it.

One directory for each name: a SQLite file of small JSON records, a file of bytes for each such request, the
lock of the kernel that uses it, and the ledger of the private statistics. `State` hears of each change where
it happens; what must not be lost waits until it is on the disk.
"""
