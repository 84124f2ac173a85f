"""Desktops that several tests or workers share, and those that are started ahead."""
