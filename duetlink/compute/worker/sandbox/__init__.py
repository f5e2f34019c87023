"""The mechanisms that lock a room down, one file each; `lockdown.py` puts them in force in the right order.

- Landlock: Linux refuses files outside a list, TCP, and signals to other processes (landlock(7)).
- seccomp: a filter in Linux that refuses system calls, such as those for sockets and processes (seccomp(2)).
- Limits: memory, processor time, file size and descriptors (getrlimit(2)).
- Capabilities: the privileges of root that the process gives up (capabilities(7)).
- Audit hook: Python's own check before it opens files or sockets (PEP 578); the only such check on macOS.
"""
