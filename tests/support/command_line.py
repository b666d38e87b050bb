"""Run the command line in this process."""

from typer.testing import CliRunner

from uwaga.cli.main import app


def run_uwaga(*arguments, code=0, stdin=None, **options):
    """Run ``uwaga`` with arguments; check its exit status, unless ``code`` is None, and return the result."""
    result = CliRunner().invoke(app, [*map(str, arguments)], input=stdin, **options)
    assert code is None or result.exit_code == code, f"{result.output}{result.exception}"
    return result
