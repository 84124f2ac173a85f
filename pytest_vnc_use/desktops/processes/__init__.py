"""Processes of a desktop: start, output, files, end."""
