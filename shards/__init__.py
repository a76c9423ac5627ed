"""Supervisor, workers, sessions, handlers: where protocol, router and storage meet."""
