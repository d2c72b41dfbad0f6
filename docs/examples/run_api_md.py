#!/usr/bin/env python3
"""Run the examples of docs/api.md as they stand, against a running API (make demo prints what to set):

    $ EGRESS_API=http://127.0.0.1:… DISCOVERY_TOKEN=… /usr/bin/python3 docs/examples/run_api_md.py [bash] [python] [go]

The blocks of a language are one program, in the order of the page. It ends with 0 when all of them did. Needs curl, jq,
python3-requests and go.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parent.parent / "api.md"


def program(language, blocks):
    """The command that runs the blocks, and the file that they go into."""
    if language == "bash":
        return ["bash", "-euo", "pipefail"], "examples.sh", "\n".join(blocks)
    if language == "python":
        return [sys.executable], "examples.py", "\n".join(blocks)
    # The first block is the program around the others.
    return ["go", "run"], "examples.go", blocks[0] + "\nfunc main() {\n" + "\n".join(blocks[1:]) + "}\n"


def main():
    text, failed = PAGE.read_text(), []
    for language in sys.argv[1:] or ["bash", "python", "go"]:
        blocks = re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)
        with tempfile.TemporaryDirectory() as folder:
            command, name, code = program(language, blocks)
            path = Path(folder) / name
            path.write_text(code)
            print(f"== {language}: {len(blocks)} blocks", flush=True)
            if subprocess.run([*command, str(path)]).returncode:
                failed.append(language)
    print("failed: " + ", ".join(failed) if failed else "ok")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
