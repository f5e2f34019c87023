"""Rooms: the owner's locked-down processes, in which a peer's work is done on private data.

- Room: a process that runs one program, or one approved function, and then ends. It counts as hostile as soon
  as it has received the peer's work, so everything that it sends is checked like a peer's message.
- Kernel: the Jupyter process that starts the room, gives it commands and memory, and ends it in bounded time.
- Zygote: a process that has imported all libraries and holds no data. Rooms are forked from it.
- Program, step: the recorded operations that make one result; one of these operations.
- Handler: the object in the room that carries out the kernel's commands. Each kind of room has one.
- Sealed memory: a memfd that can no longer change (fcntl(2), F_ADD_SEALS). Assets and results cross in it.
- Fault: the reason why a program has no result, in a closed vocabulary, with words for the owner only.
- Group: the smallest number of rows behind any number of a result. Policies with `min_group` use it.

Example: the owner's kernel runs `(people["age"] * 2).mean()` for the scientist (`kernel/runs.py`).

1. `Room.start` takes a spare fork of the zygote. The fork locks itself down (`sandbox/`), and reports which
   mechanisms are in force.
2. `map_asset` passes a sealed memfd with the encoded `people`. The room maps it without a copy; a write would
   copy the page, and be visible in this room only.
3. `run` passes the program, also in sealed memory: open `people`, take `age`, multiply by 2, take the mean.
4. In the room the `Interpreter` checks each step against the allow-lists and runs it. A step that fails
   leaves a `Fault` in place of its result.
5. The room asks its kernel for memory, writes the encoded result into it, and replies. The kernel seals that
   memory, so that the bytes shown to the owner are the bytes that can leave.
6. The kernel gets the result and its group: the number of ages that are not missing.

`protocol/` holds the messages that both sides read and write, `kernel/` the kernel's side, `room/` the code
in the room, and `sandbox/` the mechanisms that lock the process down.
"""
