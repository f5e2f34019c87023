"""The connections of one member: a link to every other member, and the streams of an epoch over these links.

**Link**: the connection to one other member. It lasts from the meeting until one of them leaves, and survives
changes of the network (`duetlink.net.link`).
**Peer**: another member as this one sees it: its seat, its link, and its latest status messages.
**Stream**: an ordered, reliable sequence of messages over one link. One epoch has one stream for each pair.
**Mesh**: all streams of this member in one epoch; it is the `Transport` that collective operations use.
**Message**: a head of at most 4 KiB and a body of at most 8 MiB.
**Status message** (`Word` on the wire): at most 256 bytes on a topic, sent over the control channel beside
operations. Each receiver keeps the latest one of each member and topic.
**Greeting**: a member's message that its end of a new link works.

Example: the member with seat 2 comes into a group of seats 0 (the host) and 1, and sends 3 bytes to seat 1.

    link = await wiring.join(mailbox, code)      # to the host; proves that this member knows the code
    links.adopt(0, link)                         # peers[0].link is set, its messages go to the group
    links.make(1)                                # meets seat 1 by the key of the pair, and sends a greeting
    # seat 1 greets as well: has_greeted_all(2) is True, and `Linked` goes to the host
    mesh = Mesh(1, 2, [links.peers[0].link.streams, links.peers[1].link.streams, None], on_violation)
    await mesh.send(1, b"head", memoryview(b"abc"))    # rank 1 receives Message(b"head", b"abc")
"""
