"""What everything else stands on: the loop thread, control messages as bytes, hash-chained files."""
