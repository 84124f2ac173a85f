"""What is on disk: run folders, their parts, and what is never written."""
