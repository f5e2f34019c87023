"""Runs one operation after another by its schedule: frames, the rounds' messages, deadlines."""
