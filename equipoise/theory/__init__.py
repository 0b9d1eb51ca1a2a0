"""The paper's theorems as code: guarantees, statements and tables."""
