"""YAML with numbers such as `1e-3`, which YAML 1.1 takes for words."""

from __future__ import annotations

import re

import yaml


class NumberLoader(yaml.SafeLoader):
    """SafeLoader that reads `1e-3` as a number (YAML 1.1 wants `1.0e-3`), and dates as text, as JSON does."""


NumberLoader.yaml_implicit_resolvers = {
    key: [rule for rule in rules if rule[0] != "tag:yaml.org,2002:timestamp"]
    for key, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
NumberLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+"),
    list("-+0123456789"),
)


class NumberDumper(yaml.SafeDumper):
    """SafeDumper that quotes the words which `NumberLoader` would read as numbers."""


NumberDumper.yaml_implicit_resolvers = NumberLoader.yaml_implicit_resolvers
# NumPy's float64 is a float, but the dumper looks for the exact class.
NumberDumper.add_multi_representer(float, lambda dumper, value: dumper.represent_float(float(value)))
