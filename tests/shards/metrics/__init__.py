"""Metrics, piece by piece."""
