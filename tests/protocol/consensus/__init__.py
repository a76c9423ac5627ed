"""The consensus generation: framing, options, payloads."""
