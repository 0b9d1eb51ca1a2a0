from tools.main import run_command
from tools.pages.command import write_pages

if __name__ == "__main__":
    run_command(write_pages)
