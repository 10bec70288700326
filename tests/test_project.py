"""The shape of the project: packages, floors, light import, pins."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import entitize
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from facts import raises, warns

CHECKOUT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())

#: Height of each part of the house; a part may use those strictly below it, and itself.
FLOORS = {
    "ragged": 0,
    "envs": 1,
    "adapters": 2,
    "datasets": 2,
    "policies": 2,
    "trainers": 3,
    "viewer": 3,
    "experiments": 4,
    "cli": 5,
}
#: Modules beside the parts that every part may use; they need the standard library only.
GROUND = {"files", "lazy", "process", "suggestions", "version"}
#: Third-party packages that a part may import when it is itself imported; the rest of the world is lazy.
CORE = {"numpy", "numba", "llvmlite"}
ALLOWED = {
    "ragged": CORE,
    "envs": CORE | {"gymnasium", "cloudpickle"},
    "adapters": CORE
    | {
        "gymnasium",
        "procgen",
        "gym3",
        "cffi",
        "pettingzoo",
        "entity_gym",
        "websockets",
        "vizdoom",
        "yaml",
        "ale_py",
    },
    "datasets": {"numpy", "gymnasium", "pyarrow"},
    "policies": CORE | {"gymnasium", "torch", "safetensors", "onnx", "onnxruntime", "triton"},
    "viewer": {"numpy"},
}


@cache
def package_folders() -> set[Path]:
    """Folders of the checkout that hold an `__init__.py`, relative to it."""
    found = set()
    for folder, below, files in os.walk(CHECKOUT):
        below[:] = [name for name in below if not re.match(r"\.|(build|dist|node_modules)$", name)]
        if "__init__.py" in files:
            found.add(Path(folder).relative_to(CHECKOUT))
    return found


@cache
def modules() -> list[Path]:
    return sorted(path for part in FLOORS for path in (CHECKOUT / part).rglob("*.py"))


@cache
def imports_of(path: Path) -> tuple[list[ast.AST], list[ast.AST]]:
    """The import statements of a file: all of them, and those that run when it is imported."""
    tree = ast.parse(path.read_text())
    kinds = (ast.Import, ast.ImportFrom)
    every, first = (
        [part for part in statements(tree, later) if isinstance(part, kinds)] for later in (True, False)
    )
    return every, first


def statements(node: ast.AST, later: bool) -> Iterator[ast.AST]:
    """The statements in a node; without `later` none of functions, and none for type checkers only."""
    typing_only = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    for block in ("body", "handlers", "orelse", "finalbody", "cases"):
        if later or not (typing_only and block == "body"):
            for part in getattr(node, block, []):
                yield part
                if later or not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield from statements(part, later)


def imported(path: Path, node: ast.AST) -> list[str]:
    """The modules that an import statement names, absolute, with relative ones under `entitize`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    if node.level == 0:
        return [node.module or ""]
    package = ["entitize", *path.parent.relative_to(CHECKOUT).parts]
    base = package[: len(package) - node.level + 1]
    names = [node.module] if node.module else [alias.name for alias in node.names]
    return [".".join([*base, name]) for name in names]


def test_the_package_list_names_every_folder_with_code() -> None:
    listed = set(PYPROJECT["tool"]["setuptools"]["packages"])
    assert listed == {".".join(["entitize", *folder.parts]) for folder in package_folders()}


def test_the_package_data_names_every_yaml_file() -> None:
    data = PYPROJECT["tool"]["setuptools"]["package-data"]
    found = {
        ".".join(["entitize", *folder.parts])
        for folder in package_folders()
        if any((CHECKOUT / folder).glob("*.yaml"))
    }
    assert found == {package for package, patterns in data.items() if "*.yaml" in patterns}


def test_the_package_data_has_the_parts_of_the_page() -> None:
    found = {path.name for path in (CHECKOUT / "viewer").iterdir() if path.suffix in (".html", ".css", ".js")}
    assert found == set(PYPROJECT["tool"]["setuptools"]["package-data"]["entitize.viewer"])


def test_every_folder_with_code_stands_on_a_floor() -> None:
    assert {folder.parts[0] for folder in package_folders() if folder.parts} == set(FLOORS)


def test_modules_import_only_from_floors_below() -> None:
    wrong = [problem for path in modules() for problem in imports_upwards(path)]
    assert not wrong, "\n".join(wrong)


def imports_upwards(path: Path) -> Iterator[str]:
    """What a file imports that it may not."""
    part = path.relative_to(CHECKOUT).parts[0]
    for node in imports_of(path)[0]:
        for name in imported(path, node):
            top, _, rest = name.partition(".")
            where = f"{path.relative_to(CHECKOUT)} imports {name}"
            if top in FLOORS:
                yield f"{where}: bare folders are not importable"
            if top != "entitize":
                continue
            if not (isinstance(node, ast.ImportFrom) and node.level):
                yield f"{where}: not by a relative import"
            other = rest.split(".")[0]  # a part, or a name of the package's face
            if other in GROUND:
                continue
            below = FLOORS.get(other, len(FLOORS)) < FLOORS[part]
            if not (below or other == part or (other not in FLOORS and part in ("experiments", "cli"))):
                yield where


def imported_files(path: Path) -> set[Path]:
    """The package's files that a file imports, also for type checkers only and inside functions."""
    found = set()
    for node in imports_of(path)[0]:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for place in (base / alias.name for alias in node.names):
                # A name is a module, a folder, or what the module or folder before it has.
                places = [f"{place}.py", f"{place}/__init__.py", f"{base}.py", f"{base}/__init__.py"]
                found.add(Path(next(file for file in places if os.path.exists(file))))
    return found - {path}


def circles(imports: dict[Path, set[Path]]) -> list[set[Path]]:
    """The sets of two or more files of which each reaches all others."""

    def reached(start: Path) -> set[Path]:
        seen, pending = set(), [start]
        while pending:
            new = imports.get(pending.pop(), set()) - seen
            seen |= new
            pending += new
        return seen

    reach = {path: reached(path) for path in imports}
    found = {frozenset(other for other in reach[path] if path in reach.get(other, ())) for path in imports}
    return [set(circle) for circle in found if len(circle) > 1]


def test_no_files_import_each_other_in_a_circle() -> None:
    found = circles({path: imported_files(path) for path in [CHECKOUT / "__init__.py", *modules()]})
    named = [sorted(str(path.relative_to(CHECKOUT)) for path in circle) for circle in found]
    assert not named, "\n".join(map(str, named))


def test_a_folder_has_at_most_twenty_files() -> None:
    counts = {str(folder): len(list((CHECKOUT / folder).glob("*.py"))) for folder in package_folders()}
    assert {folder: count for folder, count in counts.items() if count > 20} == {}


def test_a_file_of_the_package_has_at_most_four_hundred_lines() -> None:
    lengths = {str(path.relative_to(CHECKOUT)): len(path.read_text().splitlines()) for path in modules()}
    assert {path: length for path, length in lengths.items() if length > 400} == {}


@pytest.mark.parametrize("part", ALLOWED)
def test_a_floor_needs_only_its_own_third_party_packages(part: str) -> None:
    ours = {"entitize", *sys.stdlib_module_names}
    for path in sorted((CHECKOUT / part).rglob("*.py")):
        for node in imports_of(path)[1]:
            for name in imported(path, node):
                top = name.split(".")[0]
                assert top in ours | ALLOWED[part], (
                    f"{path.relative_to(CHECKOUT)}:{node.lineno} imports {name}"
                )


def test_importing_entitize_loads_nothing_heavy() -> None:
    heavy = (
        "torch",
        "numba",
        "procgen",
        "gym3",
        "gym",
        "matplotlib",
        "tyro",
        "rich",
        "imageio",
        "tensorboard",
        "stable_baselines3",
        "ale_py",
        "vizdoom",
        "jpype",
        "griddly",
        "python_griddly",
        "pettingzoo",
    )
    program = f"import sys, entitize; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_training_loads_no_compiler_of_torch() -> None:
    """Each of these takes half a second to two seconds."""
    program = (
        "import sys, entitize as ez; venv = ez.make_vec('MineSweeper', num_envs=2)\n"
        "net = ez.RogueNet(venv.single_observation_space, venv.single_action_space, n_layer=1)\n"
        "ez.PPO(net, venv, ez.PPOConfig(num_steps=4)).train(8, progress=False)\n"
        "print({'torch._dynamo', 'torch._inductor', 'sympy', 'tensorboard', 'rich'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


def test_every_public_name_resolves() -> None:
    needs_ragged_buffer = {name for name in entitize.__all__ if name.endswith("entity_gym")}
    here = importlib.util.find_spec("ragged_buffer") is not None  # there is none for Python 3.12
    for name in set(entitize.__all__) - (set() if here else needs_ragged_buffer):
        assert getattr(entitize, name) is not None
        assert name in dir(entitize)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("CategoricalMask", "actions"),
        ("GridNet", "baselines"),
        ("ListVectorEnv", "vector"),
        ("MultiSnakeAgents", "games"),
        ("Nearest", "gymnasium"),
        ("OpponentPool", "self_play"),
        ("GameView", "pettingzoo"),
    ],
)
def test_a_former_public_name_warns_and_names_the_new_one(old: str, new: str) -> None:
    with warns(DeprecationWarning, old, f"entitize.{new}.{old}") as caught:
        value = getattr(entitize, old)
    assert value is getattr(getattr(entitize, new), old)
    assert caught[0].filename == __file__


def test_a_name_that_moved_to_another_package_works_with_a_warning() -> None:
    with warns(DeprecationWarning, "entitize.envs", "entitize.make_vec"):
        former = importlib.import_module("entitize.envs").make_vec
    assert former is entitize.make_vec


def test_a_name_that_loads_at_first_use_is_no_module_beside_it() -> None:
    """The import of such a module would put it in the place of the name."""
    for folder in package_folders():
        face = ast.parse((CHECKOUT / folder / "__init__.py").read_text())
        lazy = [node for node in face.body if isinstance(node, ast.If)]
        for node in (
            part for statement in lazy for part in statement.body if isinstance(part, ast.ImportFrom)
        ):
            for alias in node.names if node.module else []:
                name = alias.asname or alias.name
                assert not (CHECKOUT / folder / f"{name}.py").exists(), f"{folder}: {name}"


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with raises(AttributeError, "'entitize'", "'RougeNet'"):
        _ = entitize.RougeNet


def test_every_requirement_is_pinned_to_a_version_that_it_allows() -> None:
    lines = (CHECKOUT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    versions = {canonicalize_name(name): version for name, version in pins.items()}
    project = PYPROJECT["project"]
    wanted = [
        *project["dependencies"],
        *(r for extra in project["optional-dependencies"].values() for r in extra),
    ]
    for requirement in map(Requirement, wanted):
        name = canonicalize_name(requirement.name)
        if name != "entitize":
            assert name in versions, f"{name} has no pin in constraints.txt"
            assert versions[name] in requirement.specifier, f"{requirement} does not allow {versions[name]}"


def test_the_versions_of_package_and_project_agree() -> None:
    assert entitize.__version__ == PYPROJECT["project"]["version"]
    assert f"\nversion: {entitize.__version__}\n" in (CHECKOUT / "CITATION.cff").read_text()
    assert f"## {entitize.__version__}" in (CHECKOUT / "CHANGELOG.md").read_text()
