"""What learners have in common."""
