"""Configurations that come with the package, as YAML files."""
