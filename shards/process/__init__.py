"""The supervisor: processes, not messages.

Owns the workers as processes, their signals, deaths and exit codes; it reads no message and opens
no partition. Read supervisor.py, then orderly_stop.py and worker_deaths.py.
"""
