"""Tests under disturbances: a world of their own, what is done to it, and what must
hold afterwards.
"""
