"""Add to pyproject.toml: the dependencies from requirements.txt, and the dashboard inside the wheel."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
CARRIED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["skillviz"]["carried"]


class WithDashboard(build_py):
    """Copy the files named in CARRIED into skillviz/app of the build; an editable install reads the checkout itself."""

    def run(self) -> None:
        """Run the base class's build, then copy the files."""
        super().run()
        app = Path(self.build_lib) / "skillviz" / "app"
        if self.editable_mode:
            return
        shutil.rmtree(app, ignore_errors=True)
        for name in CARRIED:
            source, target = ROOT / name, app / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "checkpoint-*"))
            else:
                shutil.copyfile(source, target)


lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
setup(
    install_requires=[line for line in lines if line and not line.startswith(("#", "-"))],
    cmdclass={"build_py": WithDashboard},
)
