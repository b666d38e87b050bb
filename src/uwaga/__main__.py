"""The ``uwaga`` command, for ``python -m uwaga``."""

from uwaga.cli.start import start

if __name__ == "__main__":
    start()
