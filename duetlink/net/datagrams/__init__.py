"""Datagrams: single packets to the peer, authenticated and encrypted, but neither ordered nor reliable.

  datagram  one payload of at most `mtu_bytes`; it arrives once and unchanged, or not at all
  wire      the channel of one connection that transports packets (`net/peer/unreliable.py`)
  report    sent by the receiver once a second: how many datagrams have arrived
  loss      the share of the sent datagrams that did not arrive, computed from the reports

Example: a packet is one byte of kind, eight bytes of number, and the payload. This side sends the datagrams
0, 1 and 2, and number 1 is lost. The receiver's next report is (expected=3, arrived=2, arrived_bytes=...), so
`loss` is 1/3. Nothing is sent again. If the connection is replaced, the next datagram has number 3, and a
late copy of number 2 is still recognised as a duplicate.
"""
