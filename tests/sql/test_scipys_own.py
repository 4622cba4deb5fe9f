"""NumPy's and SciPy's own tests of what gx has, with gx behind their names (scipykit.py).

Plan: each module of tests below, as it is installed, in a process of its own.  Every test passes, by calls of gx, or is in the list with the
reason why it does not; a row of the list that fits no failure is an error.  docs/testing.md has the counts, of the versions that it names.
Tests that pass without a call of gx (refusals, other functions) are counted apart.

GX_ALL=1 runs those, too, that are many thousand calls each: stacks of matrices with every stride.
"""
import fnmatch
import json
import os
import re
import subprocess
import sys

import numpy
import pytest
import scipy

from conftest import ROOT, gx_path

VERSIONS = ("1.24", "1.10")  # of NumPy and SciPy: other ones have other tests
MANY = "*test_generalized_*"

NO_NUMBER = "gx has no long double and computes nothing in halves"
ORDER = "eigenvalues come by falling modulus"
ROUNDED = "floats are right to rounding; the test wants six decimals of numbers near 10"
SINGULAR = "a singular matrix without a square root or logarithm is refused; SciPy gives Inf, or NaN, and prints a warning"
DST = "with 'ortho' types 2 and 3 are orthogonal, as SciPy's are since 1.12"
BADLY_SCALED = "the logarithm of a matrix whose elements differ by 10^5 has three digits in one element; SciPy's special case of triangles has five"

# module: [(test, reason)]
MODULES = {
    "numpy.linalg.tests.test_linalg": [
        ("TestSolve::test_generalized_sq_cases", ROUNDED), ("TestPinv::test_generalized_*", ROUNDED), ("TestEighCases::test_generalized_herm_cases", ROUNDED),
        ("TestLstsq::test_*sq_cases", ROUNDED),
        ("TestLstsq::test_future_rcond", "the rank of a singular matrix within one rounding is a matter of rounding"), ("TestNormSingle::test_axis", ROUNDED), ("TestQR::test_mode_all_but_economic", ROUNDED),
        ("TestQR::test_stacked_inputs[[]float32*", ROUNDED),
        ("TestMatrixPower::test_*[[]dt9]", NO_NUMBER), ("TestMatrixPower::test_*[[]dt12]", NO_NUMBER), ("TestMatrixPower::test_*[[]dt15]", NO_NUMBER),
        ("TestMatrixPower::test_large_power[[]dt1[0134]]", "the power is 2^86 - 1, and numbers in SQL have 64 bits"),
    ],
    "scipy.linalg.tests.test_basic": [
        ("TestLstsq::*", NO_NUMBER),
        ("TestSolve::test_sym_pos_dep", "the warning is of a flag of SciPy's, not of what is computed"),
    ],
    "scipy.linalg.tests.test_decomp": [
        ("TestEigVals::*", ORDER), ("TestEig::test_simple", ORDER), ("TestEig::test_check_finite", ORDER),
        ("TestEigh::test_eigh_of_sparse", "the class of the error"), ("TestEigh::test_deprecation_results", "of deprecated flags"),
        ("TestLU::test_medium1*", "compares with LAPACK's own call to the last bit"),
        ("TestHessenberg::test_2x2", "gx reduces a matrix of order 2 as any other: the result is another one, and unitary"),
        ("test_orth_memory_efficiency", "LAPACK's singular values of 2 x 10^7 ones are off by 1e-10, which gx notices and refuses"),
    ],
    "scipy.linalg.tests.test_decomp_cholesky": [],
    "scipy.linalg.tests.test_decomp_ldl": [("test_args", "the warning is of a flag of SciPy's")],
    "scipy.linalg.tests.test_decomp_polar": [],
    "scipy.linalg.tests.test_procrustes": [],
    "scipy.linalg.tests.test_matfuncs": [
        ("TestSignM::test_nils", "an eigenvalue on the imaginary axis has no sign: refused"),
        ("TestSignM::test_defective[23]", "an eigenvalue on the imaginary axis, within rounding: refused"),
        ("TestLogM::test_al_mohy*", BADLY_SCALED), ("TestFractionalMatrixPower::test_al_mohy*", BADLY_SCALED),
        ("TestLogM::test_exactly_singular", SINGULAR), ("TestLogM::test_nearly_singular", SINGULAR),
        ("TestSqrtM::test_strict_upper_triangular", SINGULAR), ("TestSqrtM::test_weird_matrix", SINGULAR),
        ("TestSqrtM::test_data_size_preservation*", NO_NUMBER),
        ("TestSqrtM::test_sqrtm_type_conversion*", "floats stay floats where the result is complex"),
        ("TestFractionalMatrixPower::test_type_conversion*", "floats stay floats where the result is complex"),
    ],
    "scipy.linalg.tests.test_solvers": [],
    "scipy.fft.tests.test_numpy": [("test_multiprocess*", "functions of the shim go to no other process")],
    "scipy.fft._pocketfft.tests.test_basic": [],
    "scipy.fft.tests.test_real_transforms": [
        ("test_identity_*_overwrite[[]*ortho*float16*-dst*", NO_NUMBER + ", and the other side of the test is SciPy's dst of before 1.12"), ("test_orthogonalize_default[[][23]-dstn]", DST),
        ("test_orthogonalize_dcst[23][[]dst-ortho]", DST),
    ],
}


def told():
    """{module: (run, passed, without gx, not)} of docs/testing.md."""
    page = (ROOT / "docs" / "testing.md").read_text()
    return {m[1]: tuple(map(int, m.groups()[1:])) for m in re.finditer(r"^\| `([\w.]+)` \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", page, re.M)}


@pytest.mark.parametrize("module", MODULES)
def test_their_own_tests(module, tmp_path):
    if (numpy.__version__.rsplit(".", 1)[0], scipy.__version__.rsplit(".", 1)[0]) != VERSIONS:
        pytest.skip(f"the list is of NumPy {VERSIONS[0]} and SciPy {VERSIONS[1]}")
    pytest.importorskip("hypothesis")
    is_all = os.environ.get("GX_ALL") == "1"
    out = tmp_path / "outcomes.json"
    environment = {**os.environ, "GX_SO": gx_path(), "GX_OUTCOMES": str(out), "PYTHONPATH": str(ROOT / "tests" / "sql")}
    few = [] if is_all else ["-k", "not test_generalized_"]
    ran = subprocess.run([sys.executable, "-m", "pytest", "-p", "scipykit", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-o", "addopts=", *few, "--pyargs", module],
                         env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    assert out.exists(), ran.stdout[-2000:] + ran.stderr[-2000:]
    outcomes = json.loads(out.read_text())
    failed = {test: why for test, (outcome, why) in outcomes.items() if outcome == "failed"}
    rows = [row for row, _ in MODULES[module]]
    unexpected = {test: why for test, why in failed.items() if not any(fnmatch.fnmatchcase(test, row) for row in rows)}
    assert not unexpected
    rounded = [row for row, why in MODULES[module] if why == ROUNDED]  # each processor rounds in its own way
    assert [row for row in rows if not any(fnmatch.fnmatchcase(test, row) for test in failed) and (is_all or "generalized" not in row) and row not in rounded] == []
    counts = [sum(outcome == kind for outcome, _ in outcomes.values()) for kind in ("passed", "without gx", "failed")]
    assert counts[0] > 0
    if not is_all:
        run, passed, without, _ = told()[module]
        loose = sum(any(fnmatch.fnmatchcase(test, row) for row in rounded) for test in outcomes)
        assert (sum(counts), counts[1]) == (run, without) and abs(counts[0] - passed) <= loose
