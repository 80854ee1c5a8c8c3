"""The build backend is setuptools', and an editable install has its modules compiled to bytecode.

pip does so for every other install. For an editable one Python would do it at first use, except
where it may not write (PYTHONDONTWRITEBYTECODE, which images of containers often set): there each
process would compile 0.5 s long before it compiles a model.
"""

import compileall
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401  (hooks that an installer asks for by name)
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)


def build_editable(*args: Any, **kwargs: Any) -> str:
    """Build the wheel of an editable install, and compile the modules to which it points."""
    compileall.compile_dir("src", quiet=1)
    return build_meta.build_editable(*args, **kwargs)
