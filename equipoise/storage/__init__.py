"""Files: writing and reading learners, selectors and portfolios."""
