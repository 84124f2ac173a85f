"""X servers: credentials, windows, state."""
