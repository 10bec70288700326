"""The Python code in README.md and docs/ runs, and prints what the page says it does.

Every fenced block marked `python` is executed, those of one file in order and in one namespace; a fragment
that can't stand alone is marked `python no-run`. A block marked `text` right behind one, or after one empty
line, is what it prints.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import inspect
import io
import re
from pathlib import Path

import entitize as ez
import gymnasium
import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
COMMON = {"num_envs", "render_mode"}  # options of all games
FENCE = re.compile(r"^```python[ ]*\n(.*?)^```\n(?:\n?```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[int, str, str | None]]:
    """(number of lines above it, code, what it prints if the page says so) of each runnable block."""
    text = page.read_text()
    return [(text[: match.start(1)].count("\n"), match[1], match[2]) for match in FENCE.finditer(text)]


def test_there_are_examples_and_outputs() -> None:
    assert blocks(CHECKOUT / "README.md")
    assert sum(printed is not None for _, _, printed in blocks(CHECKOUT / "docs" / "wrap.md")) > 12


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(CHECKOUT)))
def test_every_output_stands_behind_its_block(page: Path) -> None:
    outputs = page.read_text().count("\n```text\n")
    assert outputs == sum(printed is not None for _, _, printed in blocks(page)), (
        "a `text` block is not compared: put it right behind the `python` block that prints it"
    )


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(CHECKOUT)))
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.name == "entity-gym.md":
        pytest.importorskip("ragged_buffer", reason="entity_gym needs it, and no build is for Python 3.12")
    if page.name == "griddly.md" and importlib.util.find_spec("griddly") is None:
        pytest.skip("the engine has no build for Python 3.12")
    monkeypatch.chdir(tmp_path)
    # A page registers what it needs, whatever other tests have registered.
    foreign = [env_id for env_id in gymnasium.registry if env_id.startswith("MinAtar/")]
    for env_id in foreign:
        monkeypatch.delitem(gymnasium.registry, env_id)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, code, printed in blocks(page):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile("\n" * line + code, str(page), "exec"), namespace)
        if printed is not None:
            assert output.getvalue() == printed, f"{page.name}, the block at line {line}"


def anchors(page: Path) -> set[str]:
    """Addresses of the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(CHECKOUT)))
def test_links_to_files_and_headings_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text()):
        found = page.parent / target if target else page
        assert found.exists(), f"{page.name} links to {target}, which is not there"
        if anchor:
            assert anchor in anchors(found), f"{page.name} links to {target}#{anchor}, which is not there"


@pytest.mark.parametrize("kind", ["games", "procgen", "atari", "vizdoom", "griddly"])
def test_the_gallery_has_every_environment(kind: str) -> None:
    if kind in ("vizdoom", "griddly") and importlib.util.find_spec(kind) is None:
        pytest.skip("the engine is not installed")
    names = {
        "games": lambda: ez.games.GAMES,
        "procgen": lambda: ez.procgen.GAMES,
        "atari": lambda: [f"Atari/{name}" for name in ez.atari.GAMES],
        "vizdoom": lambda: [f"ViZDoom/{name}" for name in ez.vizdoom.scenario_names()],
        "griddly": ez.griddly.game_names,
    }[kind]()
    page = (CHECKOUT / "docs" / "gallery.md").read_text()
    missing = {name for name in names if f"### {name}\n" not in page and f"| `{name}` |" not in page}
    assert missing - {"ViZDoom/doom", "ViZDoom/doom2"} == set()  # whose data is not free


def test_the_options_of_games_are_those_of_their_classes() -> None:
    rows = re.findall(r"^\| (\w+) \| (`\w+=[^|]*) \|$", (CHECKOUT / "docs" / "games.md").read_text(), re.M)
    page = {name: dict(re.findall(r"`(\w+)=([^`]+)`", options)) for name, options in rows}
    for name in set(ez.games.GAMES) - {"OrbitWars", "PlanetWars"}:  # they have a page
        made = ez.games.MineSweeper if name == "MineSweeper" else type(ez.make_vec(name, 2))
        parameters = inspect.signature(made).parameters
        options = {option: repr(parameters[option].default) for option in set(parameters) - COMMON}
        assert page.get(name, {}) == options, name


@pytest.mark.parametrize("engine", ["atari", "griddly", "microrts", "procgen", "vizdoom"])
def test_every_option_of_an_engine_is_in_the_table_of_its_page(engine: str) -> None:
    if engine in ("vizdoom", "griddly") and importlib.util.find_spec(engine) is None:
        pytest.skip("the engine is not installed")
    adapter = getattr(ez, engine)
    made = [getattr(adapter, name) for name in dir(adapter) if name.endswith("VectorEnv")]
    options = importlib.import_module(f"entitize.adapters.{engine}.options")
    own = [kind for name, kind in vars(options).items() if name.endswith("Options")]
    expected = {field.name for kind in own for field in dataclasses.fields(kind)}
    for function in (*made, adapter.make_vec):
        parameters = inspect.signature(function).parameters.values()
        expected |= {parameter.name for parameter in parameters if parameter.kind == parameter.KEYWORD_ONLY}
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", (CHECKOUT / "docs" / f"{engine}.md").read_text(), re.M)
    written = {name for names in rows for name in re.findall(r"\w+", names)}
    assert expected - {"use_generated_assets"} <= written  # the engine refuses that one


def test_every_page_is_in_one_of_the_four_parts_of_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx", reason="the site needs the extra `docs`")
    monkeypatch.syspath_prepend(str(CHECKOUT / "docs" / "extensions"))
    pages = importlib.import_module("pages")
    parts = pages.parts((CHECKOUT / "docs" / "index.md").read_text())
    assert list(parts) == ["Tutorials", "How-to guides", "Explanations", "Reference"]
    sorted_in = [page for pages in parts.values() for page in pages if page != "api/index"]
    written = [page.stem for page in (CHECKOUT / "docs").glob("*.md") if page.stem != "index"]
    assert sorted(sorted_in) == sorted(written)
    assert {"search", "genindex", "py-modindex"}.isdisjoint(written), "Sphinx writes a page of that name"
