"""Tests of what the other tests stand on: the stores, the faults, the count of units."""
