var a=`"""Running of a program with the tests of its exercise, in a separate process or in the page.

The file needs only the standard library. \`\`uwaga learn\`\` runs it as a script, which reads a program and tests
from standard input; page/src/lab/python_worker.ts loads it into Python compiled to WebAssembly.
"""

from __future__ import annotations

import json
import sys
import traceback
from types import TracebackType
from typing import Any

PROGRAM, TESTS = "<program>", "<tests>"
"""File names of the program and of the tests in tracebacks."""
MARK = "uwaga-verdict "
"""The start of the last line that the script writes."""


def judge(program: str, tests: str) -> dict[str, Any]:
    """Return the outcome of running a program and its tests, with \`\`kind\`\`, \`\`text\`\` and \`\`line\`\`.

    \`\`kind\`\` is \`\`right\`\` if all tests pass; \`\`remark\`\` if an assertion of the tests fails, whose message is
    \`\`text\`\`; \`\`ended\`\` if the program calls \`\`sys.exit\`\`, with the status in \`\`text\`\`; or \`\`error\`\` for an
    exception, described by \`\`text\`\`. \`\`line\`\` is the line of the program that raised the exception, 0 if a
    test raised it.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(compile(program, PROGRAM, "exec", dont_inherit=True), names)  # noqa: S102 (the reader's program)
        exec(compile(tests, TESTS, "exec", dont_inherit=True), names)  # noqa: S102
    except SystemExit as error:
        return {"kind": "ended", "text": str(error.code), "line": 0}
    except SyntaxError as error:
        line = error.lineno if error.filename == PROGRAM else _program_line(error.__traceback__)
        return {"kind": "error", "text": f"{type(error).__name__}: {error.msg}", "line": line or 0}
    except BaseException as error:
        line = _program_line(error.__traceback__)
        if isinstance(error, AssertionError) and not line:
            return {"kind": "remark", "text": str(error), "line": 0}
        text = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
        return {"kind": "error", "text": text, "line": line}
    return {"kind": "right", "text": "", "line": 0}


def _program_line(trace: TracebackType | None) -> int:
    """Return the number of the innermost line of the program in a traceback, or 0."""
    lines = [number for frame, number in traceback.walk_tb(trace) if frame.f_code.co_filename == PROGRAM]
    return lines[-1] if lines else 0


def main() -> None:
    """Judge the program and tests on standard input, and write the outcome to standard output."""
    task = json.loads(sys.stdin.buffer.read())
    verdict = judge(task["program"], task["tests"])
    sys.stdout.flush()
    sys.stdout.buffer.write(f"\\n{MARK}{json.dumps(verdict)}\\n".encode())
    sys.stdout.flush()


if __name__ == "__main__":
    main()
`;var d=new URL("python/",self.location.href).href,r=t=>self.postMessage(t),s;async function l(){let{loadPyodide:t}=await import(`${d}pyodide.mjs`),e=await t({indexURL:d}),n=new TextDecoder,i=o=>(r({type:"output",text:n.decode(o,{stream:!0})}),o.length);return e.setStdout({write:i}),e.setStderr({write:i}),e.setStdin({stdin:()=>null}),e.runPython('__name__ = "judge"'),e.runPython(a),e}self.onmessage=async({data:t})=>{try{s??=l();let e=await s;/\bnumpy\b/.test(t.program+t.tests)&&(await e.loadPackage("numpy",{messageCallback:()=>{}}),e.runPython("import numpy")),r({type:"ready"}),e.globals.set("task",JSON.stringify(t));let n=e.runPython(`given = json.loads(task)
verdict = judge(given["program"], given["tests"])
sys.stdout.flush()
json.dumps(verdict)`);r({type:"judged",judged:JSON.parse(n)})}catch(e){s=void 0,r({type:"failed",detail:e instanceof Error?e.message:String(e)})}};
