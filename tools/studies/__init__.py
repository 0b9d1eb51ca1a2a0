"""Studies whose results are quoted in documentation: each is a module that prints its table."""
