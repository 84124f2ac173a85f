"""Desktops that several tests or workers share, and desktops that are started ahead."""
