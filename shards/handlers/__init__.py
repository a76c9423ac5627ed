"""One handler per command, named like it. They know values, not bytes and not transports."""
