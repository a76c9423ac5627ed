"""Clients of SDK 0.1 to 0.8: their layouts, statuses and sends, and how they are recognised."""
