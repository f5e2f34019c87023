"""Contract tests that third-party implementations can run to prove themselves."""
