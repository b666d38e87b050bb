"""``python -m uwaga`` is the ``uwaga`` command."""

from uwaga.cli.start import start

if __name__ == "__main__":
    start()
