"""docs/wrap.md says what its code prints."""

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "wrap.md"
FENCE = re.compile(r"^```(python|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_page_shows_what_its_code_prints() -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed, compared = "", 0
    text = PAGE.read_text()
    for match in FENCE.finditer(text):
        kind, content = match.groups()
        if kind == "python":
            output = io.StringIO()
            line = text[: match.start(2)].count("\n")
            with contextlib.redirect_stdout(output):
                exec(compile("\n" * line + content, str(PAGE), "exec"), namespace)
            printed = output.getvalue()
        else:
            assert printed == content
            compared += 1
    assert compared > 12
