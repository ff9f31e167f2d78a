"""`rajada jobs`: the jobs, and orders to them."""

from __future__ import annotations

import typer

from ops.commands import job_orders

app = typer.Typer(help="Look at jobs and give orders to them.", no_args_is_help=True)
job_orders.add_to(app)
