"""A broker among enemies: mutated frames, false lengths, slow, silent and too many peers."""
