"""The messages between a kernel and a room: frames, commands, answers, events, errors.

A frame has a JSON header, content, and file descriptors. These are the headers of a small run, in order:

    kernel   {"start": {"handler": "program", "libraries": ["numpy"], "limits": {...}}}
    room     {"ready": {"filesystem": "Landlock 6, ...", ..., "libraries": [...], "extensions": [...]}}
    kernel   {"call": 1, "command": "asset"}    content: name, revision, size; one sealed descriptor
    room     {"reply": 1, "rooms": []}
    kernel   {"call": 2, "command": "run"}      content: limits, salt, size; the program in a descriptor
    room     {"event": "progress"}              content: the number of the current step
    room     {"want": 1, "size_bytes": 136}     asks for memory for the result
    kernel   {"room": 1, "refused": ""}         one descriptor of memory that the room may write to
    room     {"reply": 2, "rooms": [1]}         content: type and shape of the result, which is in memory 1

A command that failed is answered with `{"failure": 2, "kind": ..., "text": ...}` in place of a reply. In
these headers a "room" is a piece of memory for a result, not a process. Commands are answered in the order in
which they were sent. Only the kernel sends descriptors; the room refers to memory by number.
"""
