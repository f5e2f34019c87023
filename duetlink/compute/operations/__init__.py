"""What may be done with data that one cannot see: allow-lists, steps, their lineage. Pure."""
