"""Run the command line with ``python -m mmbench``."""

from mmbench.cli import main

if __name__ == "__main__":
    main()
