"""The verification of claims about the screen."""
