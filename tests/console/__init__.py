"""The web console: what is served, what it asks for, and every page in a real browser."""
