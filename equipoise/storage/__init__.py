"""Files: writing and reading learners, selectors and portfolios, and files of older releases."""
