"""A broker and clients of the consensus generation, byte by byte."""
