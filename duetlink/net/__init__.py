"""The wing that links two notebooks: from a session code to a link, over any path that the networks allow.

  signaling/  session codes, mailboxes and the pairing exchange
  peer/       one WebRTC connection, its channels, and calls over them
  flight/     Arrow Flight between two peers: server, client, tickets, bodies
  tunnel/     an ordered byte stream over UDP datagrams
  carrier/    the helper process of a path
  stun/       STUN and TURN
  paths/      the ways for bytes to reach the peer, and the choice among them
  datagrams/  single packets, which may be lost
  streams/    ordered, reliable messages over any path
  ports/      TCP services of one side that the other uses through the link
  link/       the link itself: introduction, offers, pulls, reconnecting, statistics

Each package's docstring defines its nouns with an example.
"""
