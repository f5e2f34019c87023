"""The code that runs inside a room, behind the sandbox."""
