"""The dual channel: calls over the control channel, arrays over the best path, one life together."""
