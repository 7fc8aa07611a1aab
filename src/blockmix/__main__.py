"""The command as a module: `python -m blockmix`."""

from blockmix.command import main

if __name__ == "__main__":
    main()
