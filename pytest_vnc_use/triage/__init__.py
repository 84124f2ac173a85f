"""The meaning of a failed test."""
