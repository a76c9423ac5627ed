"""Copies of sealed segments and of the metadata in another place, and the way back from there."""
