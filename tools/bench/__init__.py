"""How fast this package is, beside what else there is: `equipoise bench`."""
