"""What a failed test means."""
