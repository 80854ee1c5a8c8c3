"""`python -m minicc` is the command line."""

from minicc.cli import main

if __name__ == "__main__":
    main()
