"""What the theory promises, as code: certificates that can be recomputed from their own record."""
