"""What the .pyz runs."""

import sys

from firstfault_epilog.cli import main

sys.exit(main(sys.argv[1:]))
