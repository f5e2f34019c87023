"""Where a table is prepared: one file per engine, over the same expressions."""
