"""python -m gx_sqlite [database], python -m gx_sqlite demo: see shell.py."""
import sys

from .shell import main

sys.exit(main())
