"""When a claim holds."""
