"""Recordings of passed runs: kept beside their tests, replayed on the live desktop, healed where it changed."""
