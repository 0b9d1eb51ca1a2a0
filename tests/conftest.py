"""Settings that all tests share."""

from hypothesis import settings

# The same examples on every run, so that a failure is never a matter of luck; and no deadline per example, because
# a busy machine is no fault of the code.
settings.register_profile("equipoise", derandomize=True, deadline=None)
settings.load_profile("equipoise")
