"""Files: how parts are written, read, and brought up to date from older releases."""
