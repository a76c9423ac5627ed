"""What is left of a worker that dies, and requests that have killed two.

in_work.py notes the request in work in shared memory; crash_reports.py writes it down; poison.py
refuses.
"""
