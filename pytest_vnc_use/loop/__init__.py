"""What happens each turn of a run."""
