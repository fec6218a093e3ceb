# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A subinterpreter gets a clear ImportError: native modules would hang it, or end the process."""

from processes import in_new_process

INSIDE = """
import sys
sys.path[:] = PATH
try:
    import tilewright
except ImportError as error:
    print(error.name, error, flush=True)
"""
PROGRAM = f"""
    import sys
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    FIRST
    interpreters.run_string(interpreters.create(), {INSIDE!r}.replace("PATH", repr(sys.path)))
"""


def test_a_subinterpreter_is_refused():
    for first in ("pass", "import tilewright; tilewright.compile(tilewright.MatmulSpec(3, 4, 5))"):
        printed = in_new_process(PROGRAM.replace("FIRST", first))
        assert printed.startswith("tilewright tilewright cannot be imported in a subinterpreter: ")
        assert "use processes" in printed
