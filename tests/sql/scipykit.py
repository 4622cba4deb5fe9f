"""NumPy's and SciPy's functions with gx behind them, as a plugin of pytest: `pytest -p scipykit --pyargs scipy.linalg.tests.test_decomp`.

The names below take the place of NumPy's and SciPy's own in numpy.linalg, scipy.linalg and scipy.fft before the tests are
imported, which come from the installed packages.  A name is what its library says: dtypes, shapes, flags, classes of errors; each number
comes from a call of gx.  Stacks of matrices are called one by one.  GX_OUTCOMES names a file for what came of each test.

Flags that say how and not what (overwrite_a, check_finite, lapack_driver, workers, ...) are taken and not looked at.
"""
import functools
import json
import os

import numpy as np
import numpy.linalg
import scipy.fft
import scipy.fft._pocketfft
import scipy.linalg

from scipybridge import calls, originals
from scipyfft import SCIPY_FFT
from scipylinalg import SCIPY_LINALG
from scipynumpy import NUMPY_LINALG

outcomes = {}
for module, own, names in ((np.linalg, np.linalg, NUMPY_LINALG), (scipy.linalg, scipy.linalg, SCIPY_LINALG), (scipy.fft, scipy.fft._pocketfft, SCIPY_FFT)):
    for name, function in names.items():
        if hasattr(module, name):
            originals[module.__name__, name] = getattr(own, name)
            functools.update_wrapper(function, getattr(module, name))
            setattr(module, name, function)
            setattr(own, name, function)


def pytest_runtest_setup(item):
    calls[0] = 0


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        why = str(report.longrepr).strip().splitlines()[-1][:200] if report.outcome == "failed" else ""
        outcome = "skipped" if report.skipped else report.outcome
        outcome = "without gx" if outcome == "passed" and calls[0] == 0 else outcome
        outcomes[report.nodeid.split("::", 1)[-1]] = [outcome, why]


def pytest_sessionfinish(session):
    if "GX_OUTCOMES" in os.environ:
        with open(os.environ["GX_OUTCOMES"], "w") as file:
            json.dump(outcomes, file)
