"""Desktops: their kinds, their processes, their X servers, and the sharing of them."""
