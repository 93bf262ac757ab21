"""The tests of dynadurable. Helpers that several test files need lie in this package; see ``conftest.py``."""
