"""`python -m borzoi.bench`: the same as `borzoi bench`."""

from borzoi.bench.main import bench

if __name__ == "__main__":
    bench(prog_name="borzoi bench")
