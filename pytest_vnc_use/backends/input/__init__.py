"""The input of a desktop: pointer, keyboard and text."""
