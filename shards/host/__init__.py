"""What this machine has: CPUs, NUMA nodes, limits of descriptors."""
