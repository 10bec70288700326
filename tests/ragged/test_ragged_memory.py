import subprocess
import sys

PROGRAM = """
import resource
import numpy as np
from entitize import process
from entitize.ragged import keep_freed_memory, return_freed_memory

def faults_of_new_arrays():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    [np.ones(1 << 17) for _ in range(32)]  # 1 MiB each
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

usual = [faults_of_new_arrays() for _ in range(3)][-1]
asked = keep_freed_memory()
faults_of_new_arrays()
kept = faults_of_new_arrays()
undone = return_freed_memory()
faults_of_new_arrays()
returned = faults_of_new_arrays()
process.switch("keep_freed_memory", False)
print(asked, usual, kept, undone, returned, keep_freed_memory())
"""


def test_freed_arrays_are_used_again_without_page_faults():
    # In a process of its own: the setting is for the whole process.
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    asked, usual, kept, undone, returned, switched_off = done.stdout.split()
    assert asked == undone
    assert switched_off == "False"
    if sys.platform == "linux" and asked == "True":
        assert int(kept) < int(usual) / 10
        assert int(returned) > int(usual) / 2
    else:
        assert asked == "False"
