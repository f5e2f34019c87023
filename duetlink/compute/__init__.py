"""Work on data that one cannot see: what may be done to it, twins, private statistics, the room."""
