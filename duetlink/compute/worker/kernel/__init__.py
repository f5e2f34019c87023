"""The kernel's side of rooms: starts them, gives them commands, watches them, and ends them.

- `Room` (`process.py`): one room process; `call` sends a command and waits for the reply.
- `Channel`: the kernel's end of the socket. It sends and receives frames on the kernel's loop.
- `Calls`: the commands that are not answered yet, and the time limit of the current one.
- `RoomPool` (`rooms.py`): the zygote and the spare process of one loop.
- `Ending`: the reason why a room ended, in words for its owner.
- `runs.py`: the commands by which a program is run, as functions.

Everything here runs on the loop that started the room, and trusts nothing that a room sends.
"""
