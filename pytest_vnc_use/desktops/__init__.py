"""Where a desktop comes from."""
