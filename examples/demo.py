"""The main job on real data: which wines belong together, and which measurements move together in each cluster.

The command `blockmix demo` does the same; here it writes to demo-output/.
"""

from blockmix.command import main

if __name__ == "__main__":
    main(["demo", "--out", "demo-output"])
