"""The files under `deploy/` and the compose file as they stand, and what the code says about them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from ops.cli import tree
from settings import Settings
from tests import yaml_texts

ROOT = Path(__file__).parents[3]
COMPOSE = ROOT / "docker-compose.kafka.yml"
CLUSTER = ROOT / "deploy/compose/cluster.env"

_VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)(?::-([^}]*))?\}")


def composed(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The compose file with its variables filled in and its anchors resolved, as the tool reads it."""

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(one) for key, one in value.items()}
        if isinstance(value, list):
            return [filled(one) for one in value]
        return _VARIABLE.sub(variable, value) if isinstance(value, str) else value

    def variable(found: re.Match[str]) -> str:
        return (environment or {}).get(found[1]) or found[2] or ""

    content: dict[str, Any] = filled(yaml_texts.read(COMPOSE.read_text()))
    return content


def cluster_variables() -> dict[str, str]:
    """The variables of the cluster's file."""
    lines = (line for line in CLUSTER.read_text().splitlines() if line and not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)


def ours(services: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The services that run our image."""
    return {name: one for name, one in services.items() if one["image"].startswith("rajada:")}


def setting_names() -> set[str]:
    """Every environment variable that is a setting."""
    names = set()
    for field, about in Settings.model_fields.items():
        alias = about.validation_alias
        names.add(alias if isinstance(alias, str) else f"RAJADA_{field.upper()}")
    return names


def parse(command: Sequence[str]) -> click.Context:
    """Read a command line as the program would; raises click.UsageError for what it would refuse."""
    program, *arguments = command
    if program == "faust":
        assert arguments[0] == "-A" and find_spec(arguments[1]) is not None, arguments
        from faust.cli.faust import cli

        assert arguments[2] == "worker"
        return cli.commands["worker"].make_context("worker", list(arguments[3:]))
    assert program == "rajada", command
    group: Any = tree()
    context = group.make_context("rajada", list(arguments))
    while isinstance(context.command, click.Group):
        name, found, rest = context.command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        assert found is not None, command
        context = found.make_context(name, rest, parent=context)
    return context
