"""What this machine's network allows: one question per file, each answered by findings in plain words."""
