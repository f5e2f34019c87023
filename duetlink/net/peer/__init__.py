"""ICE and WebRTC: one authenticated peer connection, its data channels, and calls over them."""
