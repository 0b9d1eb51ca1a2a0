"""Studies that take too long for the tests; each prints its figures."""
