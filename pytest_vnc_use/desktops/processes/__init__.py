"""The processes of a desktop: their start, output, files and end."""
