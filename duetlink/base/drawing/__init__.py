"""Show the progress of a slow call: a line or a bar, depending on notebook, terminal or log."""
