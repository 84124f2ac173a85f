"""Covers over typed secrets in pictures of the screen."""
