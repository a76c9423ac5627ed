"""Figures of the whole broker for Prometheus: gathered, put into words, and served over HTTP."""
