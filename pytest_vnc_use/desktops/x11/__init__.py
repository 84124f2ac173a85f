"""X servers: their credentials, windows and state."""
