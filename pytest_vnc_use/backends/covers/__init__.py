"""Covers over what the screen shows of a typed secret: what nobody above a controller may see."""
