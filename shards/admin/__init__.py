"""Commands on a broker, stopped or running: serve, config, check, compression, archive, reset-root.

commands.py and archive_commands.py list them; the other files are their work. Nothing here runs in
a worker.
"""
