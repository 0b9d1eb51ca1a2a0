from tools.bench.command import bench
from tools.main import run_command

if __name__ == "__main__":
    run_command(bench)
