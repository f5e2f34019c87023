"""The helper process, and the object with which a kernel controls it."""
