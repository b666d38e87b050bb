"""Importing uwaga and showing help loads neither torch nor a metrics library."""

import subprocess
import sys

import pytest

HEAVY_MODULES = (
    "torch", "sacrebleu", "transformers", "matplotlib", "pyarrow", "tensorboard", "sentencepiece", "ray",
    "httpx", "fsspec",
)  # fmt: skip


@pytest.mark.parametrize(
    "code",
    [
        "import uwaga",
        "import uwaga.cli.main",
        "from uwaga.library import find_installed; import sys; assert 'httpx' not in sys.modules",
        "import uwaga.settings, uwaga.decoder, uwaga.errors, uwaga.evaluation",
        "import contextlib, io; from uwaga.cli.main import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): main(['--help'])",
    ],
)
def test_importing_the_package_loads_no_heavy_modules(code):
    check = f"{code}\nimport sys; print(*(name for name in {HEAVY_MODULES} if name in sys.modules))"
    process = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert process.stdout.split() == []
