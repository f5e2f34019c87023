"""STUN and TURN clients, and the rules by which one side lends its TURN servers to the other.

  STUN server    tells a client its public address as the server sees it (RFC 8489)
  TURN server    relays packets for clients that cannot reach each other (RFC 8656)
  allocation     an address on a TURN server that is reserved for one client
  server URL     `stun:host:port` or `turn:host:port?transport=tcp`, parsed in `server_url.py`
  socket         sends requests to servers over UDP, TCP or TLS and matches the answers (`wire.py`)
  lent server    a TURN server that the peer may use, with credentials that expire within a day

Example: DUETLINK_ICE_SERVERS names `turn:turn.example.org:3478` with the user name `1800003600:ada`. The
digits are the Unix time at which the credentials expire. If that is less than a day away, `lent` resolves the
name and returns `turn:192.0.2.7:3478?transport=udp` with the same credentials, which the hello carries to the
peer. The peer's side checks with `borrowed` that the address is an IP literal of another machine, and then
uses the server like one of its own. A password that never expires is never lent.
"""

from duetlink.net.stand_ins import MDNS, standing_in

with standing_in(MDNS):
    import aioice.ice as ice

__all__ = ["ice"]
