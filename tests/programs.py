"""Programs that replace others in a test."""

from pathlib import Path


def program(path: Path, script: str) -> Path:
    """Write a program to `path` that runs this shell script."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
