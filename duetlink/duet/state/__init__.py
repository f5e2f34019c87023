"""What `launch(resume=…)` keeps on the owner's disk: descriptions, policies, requests, grants. No content.

One directory for each name: a SQLite file of small JSON records, the lock of the kernel that uses it, and
the ledger of the private statistics. `State` hears of each change where it happens; what must not be lost
waits until it is on the disk.
"""
