"""Why a run cannot be done, as far as the bench itself finds it out."""


class BenchFailed(Exception):
    """The text says why, and what would help."""
