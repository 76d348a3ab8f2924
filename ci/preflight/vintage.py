"""Which preflight an answer in the cache was given by: a change of this code forgets what older code found out."""

from __future__ import annotations

from pathlib import Path

from ci.cache import digest

VINTAGE = digest(path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("*.py")))
"""Stands for the text of every module of this package."""
