"""Masking of error texts, under the name by which the stages know it."""

from __future__ import annotations

from schemas.masking import LONGEST, masked

__all__ = ["LONGEST", "masked"]
