"""Shared parts of the tests: stand-ins for models and servers, programs under test, desktops in memory."""
