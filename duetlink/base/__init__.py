"""The base of all other packages: the loop thread, control messages, logs, and random numbers.

The nouns:

    loop thread    the thread with the asyncio loop that all duets of a process share (`runtime/loop.py`)
    exit plan      how one duet, group or torch job closes when the interpreter ends (`runtime/at_exit.py`)
    envelope       a control message with the numbers that connect calls and replies (`wire/envelope.py`)
    fragment       a part of at most 64 KiB of a control message (`wire/fragments.py`)
    journal        a file of lines, each of which contains the hash of the line before (`journal`)
    head           the number and hash of a journal's last line, in a file of its own (`journal/head.py`)
    entry          one line of the audit log, which is a journal (`audit/entry.py`)
    event          a record for observers, without values, names or texts of users (`events.py`)

Example: a public method blocks the caller's thread while its coroutine runs on the loop thread, and Ctrl-C
cancels the coroutine:

    thread = LoopThread()
    thread.run(asyncio.sleep(1, "done"))    # "done", after a second; from any thread but the loop's own
    thread.stop()
"""
