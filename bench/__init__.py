"""Load generators and reports: `borzoi bench`. They know the wire, not the server."""
