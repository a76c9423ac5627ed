"""What this machine has: CPUs, NUMA nodes, memory, limits of descriptors.

Owns no state. Read cpus.py, memory.py, file_limits.py.
"""
