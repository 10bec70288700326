"""`write_card`: an agent as a folder that a model hub takes as it is.

    README.md              the card: what the agent is, how to use it, its returns; with YAML front matter
    policy.safetensors     weights and input statistics
    checkpoint.json        spaces and options of the network, and a SHA-256 of each file
    config.yaml            the configuration of its training

The folder is a checkpoint and a run folder at once: `load_agent`, `load_policy` and the commands read it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import Any

import torch
import yaml

from .. import __version__
from ..files import read_regular, replace_file
from ..policies import RUN_CONFIG, Policy
from ..policies.checkpoint import READS
from ..trainers import (
    EpisodeResults,
    Interval,
    load_policy,
    read_checkpoint,
    read_origin,
    write_checkpoint,
)
from .config import UNNAMED, TrainConfig, read_run_outline
from .config_file import to_yaml
from .environments import EnvConfig
from .errors import UserError
from .microrts.match_plan import RESULTS, has_played
from .reports.document import counted, markdown_table

CARD = "README.md"
_log = logging.getLogger(__name__)

_TEXT = """\
# {title}

{network} ({parameters:,} parameters) for {env}, {training}.
It observes entities: {entities}.

## Use

```python
import entitize as ez

agent = ez.load_agent("{folder}")
```

On the command line: `entitize play {quoted}{flag}` writes a video, `entitize eval {quoted}{flag}` plays
whole episodes, `entitize train --init-from {quoted}` continues training.{confirm}

## Evaluation

{protocol}

{table}

The interval is a percentile bootstrap of the mean over episodes (10,000 resamples).
{matches}
## Training

`{config}` is the whole configuration{exception}. Options of the environment: {options}.

{origin}

## Files

- `policy.safetensors`: weights and input statistics.
- `checkpoint.json`: observation and action spaces, options of the network, and a SHA-256 of each file.
- `{config}`: the configuration of the training.

None of them contains pickle. `{config}` names an environment, which commands make.
"""


def check_new_folder(path: Path) -> None:
    """Check that the folder of a card may be written at `path`.

    Raises:
        UserError: `path` holds something.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{path}: expected a new or empty folder for the card")


def write_card(
    run: Path,
    checkpoint: Path,
    out: Path,
    config: TrainConfig,
    results: Mapping[str, EpisodeResults],
    protocol: str,
    title: str,
    licence: str | None,
) -> None:
    """Write the folder `out` for the agent of `run`.

    Args:
        checkpoint: the one that was evaluated.
        config: of the run, in the environment of the evaluation.
        results: the evaluation's episodes by name; the agent's come first.
        protocol: how they were played, a sentence or two.
        title: the name of the agent.
        licence: of the weights, as model hubs write it ("mit"); None: the card names none.

    Raises:
        UserError: `out` holds something, or can't be written.
        CheckpointError: the checkpoint is corrupt, or the system refused to write.
    """
    check_new_folder(out)
    trained_in = _trained_in(run, config.env)
    started, config = config.init_from is not None, _shared(config)
    returns = {name: result.interval() for name, result in results.items()}
    counts = {name: len(result.returns) for name, result in results.items()}
    front = _front_matter(title, config.env.id, licence, returns, counts)
    head = yaml.safe_dump(front, sort_keys=False, allow_unicode=True)
    headings = ("agent", "mean return", "95 % interval", "episodes")
    rows = [
        (name, f"{one.mean:.2f}", one.bounds(" to ") or "–", str(counts[name]))
        for name, one in returns.items()
    ]
    with _written_whole(out) as folder:
        training = _training(_copy_policy(checkpoint, folder), started)
        replace_file(folder / RUN_CONFIG, to_yaml(config).encode())
        text = _TEXT.format(
            title=title,
            training=training,
            folder=out.resolve().name,
            quoted=quote(out.resolve().name),
            table="\n".join(markdown_table(headings, [True, False, False, False], rows)),
            matches=_matches(run, checkpoint),
            config=RUN_CONFIG,
            origin=_origin(run),
            **_of_network(load_policy(folder)),
            **_of_environments(trained_in, config.env.id, protocol),
        )
        replace_file(folder / CARD, f"---\n{head}---\n\n{text}".encode())


@contextmanager
def _written_whole(out: Path) -> Iterator[Path]:
    """Give a folder whose files are moved to `out` at the end: half a card would be in the way of the next.

    Raises:
        UserError: `out` can't be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        work = TemporaryDirectory(prefix=".card-", dir=out)
    except OSError as error:
        raise UserError(f"{out}: could not write the card: {error}") from error
    with work as name:
        yield Path(name)
        for file in Path(name).iterdir():
            file.rename(out / file.name)


def _copy_policy(checkpoint: Path, out: Path) -> dict[str, Any]:
    """Write the policy of a checkpoint to `out`, and return what the checkpoint says of it."""
    stored = read_checkpoint(checkpoint)
    kept = ("spaces", READS, "policy", "cloning")
    metadata = {name: stored.metadata[name] for name in kept if name in stored.metadata}
    step = int(stored.metadata["step"])
    written = write_checkpoint(out, step, {"policy": stored.tensors["policy"]}, metadata)
    for file in written.iterdir():
        file.rename(out / file.name)
    written.rmdir()
    return {**metadata, "step": step}


def _training(metadata: Mapping[str, Any], began_elsewhere: bool) -> str:
    if "cloning" in metadata:
        return f"cloned from recorded play with Entitize, {metadata['step']:,} steps of it"
    start = ", started from the network of another run" if began_elsewhere else ""
    return f"trained with Entitize for {metadata['step']:,} steps{start}"


def _of_network(network: Policy) -> dict[str, Any]:
    """Return what the card's text says of the network."""
    return {
        "network": type(network).__name__,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "entities": ", ".join(network.observation_space.entities) or "none, only a picture",
    }


def _of_environments(trained_in: EnvConfig, evaluated_in: str, protocol: str) -> dict[str, str]:
    """Return what the card's text says of the environments of training and evaluation."""
    is_code, is_elsewhere = ":" in evaluated_in, trained_in.id != evaluated_in
    options = [f"`{name}={value}`" for name, value in trained_in.kwargs.items()]
    return {
        "env": trained_in.id,
        "options": ", ".join(options) or "none",
        "flag": f" --env.id {quote(evaluated_in)}" if is_code else "",
        "confirm": " `--env.id` confirms that the code of the environment may run." if is_code else "",
        "exception": f", but for the environment: {evaluated_in} is that of the evaluation"
        if is_elsewhere
        else "",
        "protocol": f"In {evaluated_in}, not the environment of the training. {protocol}"
        if is_elsewhere
        else protocol,
    }


def _trained_in(run: Path, evaluated_in: EnvConfig) -> EnvConfig:
    """Return the environment that the run folder names; `evaluated_in` where it names none."""
    env = _shared(read_run_outline(run)[0]).env
    return evaluated_in if env.id == UNNAMED else env


def _shared(config: TrainConfig) -> TrainConfig:
    """Return `config` without the folders and the address of the machine that trained."""
    if config.opponents is not None:
        config = replace(config, opponents=replace(config.opponents, checkpoints=()))

    def without_address(options: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in options.items() if name != "address"}

    env = replace(config.env, kwargs=without_address(config.env.kwargs))
    evaluation = replace(config.eval, kwargs=without_address(config.eval.kwargs))
    return replace(config, init_from=None, env=env, eval=evaluation)


def _front_matter(
    title: str, env: str, licence: str | None, returns: Mapping[str, Interval], counts: Mapping[str, int]
) -> dict[str, Any]:
    """Return what model hubs read: https://huggingface.co/docs/hub/model-cards."""
    family, _, game = env.removeprefix("entitize/").rpartition("/")
    tags = ["reinforcement-learning", "deep-reinforcement-learning", "entitize", "entities", family, game]
    interval = next(iter(returns.values()))
    bounds = interval.bounds(" to ")
    parts = [f"95 % interval {bounds}"] if bounds else []
    parts = ["mean return", *parts, counted(next(iter(counts.values())), "episode")]
    metric = {
        "type": "mean_reward",
        "name": ", ".join(parts),
        "value": round(interval.mean, 3),
        "verified": False,
    }
    result = {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"type": env, "name": env},
        "metrics": [metric],
    }
    return {
        "library_name": "entitize",
        **({"license": licence} if licence else {}),
        "pipeline_tag": "reinforcement-learning",
        "tags": [tag for tag in tags if tag],
        "model-index": [{"name": title, "results": [result]}],
    }


def _matches(run: Path, checkpoint: Path) -> str:
    """Return the table of `entitize eval microrts`, if the run has one of this checkpoint."""
    table = (run / RESULTS).with_name("table.md")
    try:
        text = read_regular(table).decode().strip()
    except (OSError, UnicodeDecodeError):
        return ""
    if not has_played(checkpoint, run / RESULTS):
        _log.warning("%s is not known to be of %s, and is left out of the card", table, checkpoint)
        return ""
    return f"\n### Games against bots (`entitize eval microrts`)\n\n{text}\n"


def _origin(run: Path) -> str:
    """Return a table of the code and the machine that the run was trained on, and those of this card."""
    try:
        parts = read_origin(run)
    except ValueError as error:
        _log.warning("%s", error)
        parts = []
    columns = ("from_step", "started", "version", "commit", "processor", "python", "torch")
    rows = [[str(getattr(part, name)) for name in columns] for part in parts]
    table = [*markdown_table(columns, [True] * len(columns), rows), ""] if rows else []
    return "\n".join([*table, f"This card: Entitize {__version__}, torch {torch.__version__}."])
