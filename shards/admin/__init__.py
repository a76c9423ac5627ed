"""Commands on a stopped or a running broker: serve, config, check, archive, reset-root-password.

commands.py lists them; each other file is one command's work. Nothing here runs in a worker.
"""
