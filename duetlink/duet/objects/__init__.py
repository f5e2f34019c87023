"""What is shared, given and moved: assets, their content, and their way into the audit log."""
