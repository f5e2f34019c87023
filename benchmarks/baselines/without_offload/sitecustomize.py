"""On PYTHONPATH: every interpreter sends and receives one datagram at a time, as on Windows and macOS."""

import duetlink.net.tunnel.udp_port as udp_port

udp_port.UdpPort.__init__.__kwdefaults__["offload"] = False  # type: ignore[index]
