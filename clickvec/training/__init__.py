"""Training: the only part of clickvec that needs torch. It writes the model folder that the run time reads.

torch's threads wait for each other at each of a thousand operations of an update, and wait by spinning. Where other
work has a core, that starves the thread that is waited for, and training may take fifty times as long. So they spin for
microseconds and then sleep: on a quiet machine it is as fast. libgomp looks once, when torch is first imported.
"""

import os

if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
