import subprocess
import sys

PROGRAM = """
import resource
import numpy as np
from entitize.ragged.memory import keep_freed_memory

def faults_of_new_arrays():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    [np.ones(1 << 17) for _ in range(32)]  # 1 MiB each
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

usual = [faults_of_new_arrays() for _ in range(3)][-1]
asked = keep_freed_memory()
faults_of_new_arrays()
print(asked, usual, faults_of_new_arrays(), keep_freed_memory())
"""


def test_freed_arrays_are_used_again_without_page_faults():
    # In a process of its own: the setting is for the whole process.
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    asked, usual, kept, again = done.stdout.split()
    assert asked == again
    if sys.platform == "linux" and asked == "True":
        assert int(kept) < int(usual) / 10
    else:
        assert asked == "False"
