"""The audit log: objects shared, requests, answers and releases, as a journal (`duetlink.base.journal`).

A line is on the disk before the event that it describes takes place. If the end of the file was found torn or
cut off, the log records this in a line of its own and continues.
"""
