"""The suite: every selector on the same named instances, and a table that says which to use."""
