"""Figures for Prometheus and for the metrics page.

Owns the names, help texts and types of all families; figures come from the rooms below when they
are asked for. Read families.py, own_figures.py (one shard), figures.py (all shards), overview.py
(from metadata and board), exposition.py (the answer to a scrape).
"""
