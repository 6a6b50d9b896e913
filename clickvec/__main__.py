"""Run the command line: `python -m clickvec` is the same program as `clickvec`."""

from clickvec.cli.app import main

if __name__ == "__main__":
    main()
