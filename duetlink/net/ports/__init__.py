"""Shared ports: TCP services of one side that programs of the other side reach through the link.

  port        a TCP service that one side shares under a name
  offer       the sharing end (`offer.py`): host and port of the service, which its owner chose
  listener    the using end (`listener.py`): a TCP port on 127.0.0.1 that leads to the peer's service
  connection  one TCP connection through the link; it uses one stream with the purpose "port"
  valve       a switch that holds bytes back while the user has paused a port, or all sending
  watch       the caller's hook that is called before and after each connection (`duet/ports.py` audits there)

Example: the owner shares the service "tensorboard" at localhost:6006. The scientist opens a listener for that
name and gets port 41234. Her browser connects to 127.0.0.1:41234. The listener opens a stream and sends
CONNECT with the body b"tensorboard". The owner's side connects to localhost:6006 and answers YES. Then each
side copies what it reads from its socket into the stream, and the reverse, until both directions have ended.
A peer can choose among the names, and nothing else: it never sends a host or a port number.
"""
