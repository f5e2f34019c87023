"""Paths: the ways for bytes to reach the peer, and the selector that chooses among them.

  path      one way to move a body from sender to receiver: `local`, `tcp`, `punched`, `udp`, `relay` or
            `channel`
  body      the bytes of one encoded value
  ticket    made by the sender; admits the receiver to one fetch of one body by one path
  order     what a ticket is for: the missing ranges, and the codec controller that encodes them
  receive buffer  the receiver's memory in which a body arrives
  carried path    a path with a helper process on each side (`carried.py`)
  attempt   one try to connect the two helper processes
  selector  opens all paths, keeps them open, and returns the best one (`path_selector.py`)

Example: on two home networks `local` fails at once, and `tcp` after its time-out. `udp` comes up after a
second, and a probe measures 12 MB/s. The scientist's pull calls `wait_best`, gets `udp`, asks the owner for a
ticket for that path, and calls `fetch(ticket, receive_buffer)`. Meanwhile `punched` comes up. It comes first
in the order of preference, so `wait_better_than` returns it: the pull stops the fetch after the current chunk
and continues over `punched` with a new ticket for the missing ranges.
"""
