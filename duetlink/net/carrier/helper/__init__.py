"""The helper process, and the kernel's end of it."""
