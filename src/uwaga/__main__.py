"""``python -m uwaga`` is the ``uwaga`` command."""

from uwaga.cli.main import main

if __name__ == "__main__":
    main()
