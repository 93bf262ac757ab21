"""Tests that need no server: plain decisions, fakes, and rules about the source itself."""
