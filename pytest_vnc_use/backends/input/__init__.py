"""Pointer, keyboard and text."""
