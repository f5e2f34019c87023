"""One authenticated WebRTC connection to the peer, its data channels, and calls over them.

  connection  one RTCPeerConnection: ICE finds a route, DTLS encrypts, SCTP carries the data channels
  description  the SDP text of one side (candidates, DTLS fingerprint); it travels as sealed bytes
  channel     one data channel as whole messages with a bounded queue (`channel.py`)
  durable channel  numbers messages and repeats unconfirmed ones, so that it survives a new connection
  call        a message with an id, to which the peer replies (`rpc.py`)
  notice      a message without a reply
  deadline    a time-out that does not count time in which this machine slept

Example: `await rpc.call(pb.Ping(), pb.Done)` packs the message into an envelope with id 7. The durable
channel sends it as message 41 and keeps a copy. The connection is lost before the peer has confirmed it. The
next connection begins with both sides saying how many messages have arrived; the peer has 40, so message 41
is sent again. The peer replies with an envelope that has `reply_to=7`, and the call returns. The deadline did
not run while there was no connection.
"""

from duetlink.net.stand_ins import AV, MDNS, standing_in

with standing_in(MDNS), standing_in(AV):
    import aiortc as aiortc
