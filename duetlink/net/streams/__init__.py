"""Streams: ordered, reliable messages to the peer over the best path, with any number of streams in parallel.

  stream    one two-way sequence of messages, opened for a purpose that the other side has a handler for
  message   a short head and a body of up to 1 GiB
  frame     one step of one stream: OPEN, ACCEPT, a PART of a message, CREDIT or CLOSE; frames are numbered
  batch     frames with consecutive numbers, sent as one record batch (`FrameBatch`)
  credit    bytes that the peer may still send on a stream, as in HTTP/2 (RFC 9113 §5.2)
  outlet    this side's frames, each kept until the peer has confirmed it (`outlet.py`)
  inlet     pulls the peer's frames by one path after another (`inlet.py`)
  feed      the endless Flight stream that one pull of the outlet yields

Example: a member of a group opens stream 2 for the purpose "group" and sends a message of 3 MiB. The outlet
numbers the frames: 1 is OPEN, 2 to 4 are PARTs of 1 MiB. The peer's inlet pulls them by "tcp". The path
breaks after frame 3 has arrived. The inlet continues by "udp" and asks for the frames after 3, so frame 4 is
sent again and no other. The peer's program receives the message, its stream sends CREDIT, and its next batch
confirms frame 4, which the outlet then forgets.
"""
