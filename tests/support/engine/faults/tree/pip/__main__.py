"""Run the distribution's own pip, of which python3-venv has the wheel."""

import sys
from pathlib import Path

del sys.modules["pip"]
sys.path.insert(0, str(next(Path("/usr/share/python-wheels").glob("pip-*.whl"))))

from pip._internal.cli.main import main  # noqa: E402 (the other pip)

sys.exit(main())
