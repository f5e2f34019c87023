"""The audit log: what was shared, asked, answered and let out, as a journal (`duetlink.base.journal`).

A line is on the disk before what it tells happens. A log that was found torn or cut says so in a line of its
own, and goes on.
"""
