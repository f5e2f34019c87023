"""How a member enters its group, runs operations from epoch to epoch, survives losses, and leaves."""
