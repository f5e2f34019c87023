"""The loop thread with its synchronous interface, the end of the process, threads, and meters.

This package knows nothing of links or values.
"""
