"""`python -m trunkline` is `trunkline`."""

import sys

from trunkline.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
