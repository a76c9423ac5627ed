"""What this machine has: CPUs, NUMA nodes, memory, limits of descriptors."""
