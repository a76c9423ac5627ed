"""What is said over HTTP, as values: bodies, queries, answers, errors, and how much of them. Pure.

Owns nothing. Field names, their order and the form of numbers are those of Iggy's server. Read
bodies.py (what a client says), objects.py and answers.py (what it hears), failures.py, paths.py,
figures.py, limits.py.
"""
