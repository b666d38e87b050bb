"""Write the output of the pages' Python samples into the blocks below them, after a change of the bundled
model.

python docs/outputs.py [PAGE ...]        all pages by default; says which have changed
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r'^```(python|text title="output")\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def update_page(text: str) -> str:
    """Return a page with the new output of its samples, which run in one namespace in this process."""
    parts, position = list[str](), 0
    printed: StringIO | None = None  # since the last output, if a sample has run
    namespace = {"__name__": "__main__"}
    for fence in FENCE.finditer(text):
        if fence[1] == "python":
            printed = printed or StringIO()
            with redirect_stdout(printed):
                exec(compile(fence[2], "sample", "exec"), namespace)
        elif printed is not None:
            parts += [text[position : fence.start(2)], printed.getvalue()]
            position, printed = fence.end(2), None
    return "".join(parts) + text[position:]


def main() -> None:
    """Update one page in a temporary folder, or each page in a new process."""
    if os.environ.get("PAGE"):
        page = Path(os.environ["PAGE"])
        old = page.read_text(encoding="utf-8")
        sys.path.insert(0, str(ROOT / "examples"))
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            new = update_page(old)
        if new != old:
            page.write_text(new, encoding="utf-8")
            print(f"{page.relative_to(ROOT)}: changed")
        return
    pages = [Path(name).resolve() for name in sys.argv[1:]] or sorted(
        [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    )
    for page in pages:
        if '```text title="output"' in page.read_text(encoding="utf-8"):
            program = [sys.executable, __file__]
            result = subprocess.run(program, env={**os.environ, "PAGE": str(page)}, check=False)
            if result.returncode:
                print(f"{page.relative_to(ROOT)}: its samples fail", file=sys.stderr)


if __name__ == "__main__":
    main()
