"""`python -m clickvec.cli` is the same program as `clickvec`."""

from clickvec.cli.app import main

if __name__ == "__main__":
    main()
