"""The pytest plugin: options, marker, fixtures and report hooks; adapters without logic of their own."""
