"""Shared parts of the tests: fake servers for models and servers, programs under test,
desktops in memory.
"""
