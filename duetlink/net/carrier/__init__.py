"""The helper process of a path: it connects to the peer's helper, and carries Flight's connections to it.

  carrier   the helper process (`helper/process.py`); it runs one attempt at one path
  attempt   one try to connect the two helpers; the kernels start both and relay their signals
  signal    an opaque message from one helper to the other, over the control channel of the link
  driver    the part of a carrier that reaches the peer: `ice.py` for `udp` and `relay`, `punch.py` for
      `punched`
  session   what a driver gets: the configuration of the attempt, and functions to send and receive signals
  stream    the ordered bytes that a driver yields: a tunnel over UDP, or a TCP connection
  mux       several loopback TCP connections over that one stream (`multiplexing/`)

Example: both sides try `punched`. Each kernel starts `python -m duetlink.net.carrier` and writes one line of
JSON, the `Configuration`. The drivers exchange addresses by signals, connect to each other, and prove that
they know the attempt's key. The helper then listens on 127.0.0.1:38200 and reports {"up": {"port": 38200,
"description": "TCP, ..."}}. The Flight client connects to that port, the mux opens a stream for it, and the
peer's helper connects it to the peer's Flight server. TLS runs from end to end, so the helpers see only
ciphertext.
"""
