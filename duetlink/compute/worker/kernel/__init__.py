"""The kernel's side of rooms: starts, commands, watches and ends them."""
