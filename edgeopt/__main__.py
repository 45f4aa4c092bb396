"""`python -m edgeopt` is the command line, where the script `edgeopt` is not on the PATH too."""

from edgeopt.cli.main import main

if __name__ == "__main__":
    main()
