"""Worked examples; each runs on its own (`python -m borzoi.spark.examples.<name> --help`)."""
