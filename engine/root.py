"""Where the repository lies: processes are started there, and what it ships is read from there."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
