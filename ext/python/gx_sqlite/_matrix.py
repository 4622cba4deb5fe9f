"""Matrices as Python objects: stored ones, and expressions of them that become one SQL call.

    A = gx.matrix(db, "A")
    A.shape                     # of the catalog: nothing is read
    A[0:100, :], A[3], A[3, 4]  # reads what it needs; A[[5, 2, 9]]: rows by a list
    G = A.T @ A                 # nothing is computed
    np.asarray(G)               # one SELECT: gx_matmul('A', 'A', '{"transa":true}')
    G.store("G")                # the same, stored, of any size
"""
from __future__ import annotations

import json
import numbers
import operator
from decimal import Decimal
from typing import Any, Iterator, NamedTuple, Optional, Union

import numpy as np

from . import _columns, _connect, _notebook
from ._arrays import fetch
from ._sparse import is_scipy, pack_sparse
from ._values import DTYPES, Array, Buffer, pack, plain, unpack

Operand = Union["Expression", Array, float, complex]
BINARY = {"add": "gx_add", "subtract": "gx_sub", "multiply": "gx_mul", "divide": "gx_div", "power": "gx_pow",
          "remainder": "gx_mod", "equal": "gx_equal", "not_equal": "gx_not_equal", "less": "gx_less",
          "less_equal": "gx_less_equal", "greater": "gx_greater", "greater_equal": "gx_greater_equal",
          "maximum": "gx_maximum", "minimum": "gx_minimum", "hypot": "gx_hypot", "arctan2": "gx_atan2",
          "logical_and": "gx_logical_and", "logical_or": "gx_logical_or", "logical_xor": "gx_logical_xor"}
UNARY = {"negative": "gx_neg", "absolute": "gx_abs", "conjugate": "gx_conj", "arcsin": "gx_asin", "arccos": "gx_acos",
         "arctan": "gx_atan", "arcsinh": "gx_asinh", "rint": "gx_round",
         **{name: f"gx_{name}" for name in (
             "square", "reciprocal", "sqrt", "cbrt", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan",
             "sinh", "cosh", "tanh", "floor", "ceil", "trunc", "sign", "isnan", "isinf", "isfinite", "logical_not")}}
MASKS = {"bitwise_and": "gx_logical_and", "bitwise_or": "gx_logical_or", "bitwise_xor": "gx_logical_xor"}  # & | ^
KEEPS_SPARSE = ("gx_transpose", "gx_matmul", "gx_add", "gx_sub", "gx_mul", "gx_neg", "gx_abs")  # of sparse operands
Shape = tuple[int, int]
_BAND = 8 << 20  # bytes of rows that are read at a time


class SVD(NamedTuple):
    """A = U @ diag(S) @ Vh."""

    U: Array
    S: Array
    Vh: Array


class Eigen(NamedTuple):
    """A @ eigenvectors = eigenvectors * eigenvalues: a column each."""

    eigenvalues: Array
    eigenvectors: Array


class Components(NamedTuple):
    """Principal components: how much each varies, its share of all, and as rows their directions."""

    variance: Array
    ratio: Array
    components: Array


def matrix(db: Any, name: str) -> Matrix:
    """The stored matrix of that name."""
    return Matrix(db, name)


class Expression:
    """A formula of matrices: its shape is known, its elements are computed when they are asked for."""

    __hash__ = None  # type: ignore[assignment]  # as of an array: == is element by element
    _db: Any

    def __init__(self, db: Any, function: str, operands: tuple[Any, ...], options: dict[str, Any], shape: Shape) -> None:
        for operand in operands:
            if isinstance(operand, Expression) and _connect.driver(operand._db) is not _connect.driver(db):
                raise ValueError(f"gx_sqlite: {operand._text()} is of another connection: fetch() its elements first")
        self._db = db
        self._function = function
        self._operands = operands
        self._options = options
        self.shape = shape

    # What it is ------------------------------------------------------------------------------------------------------

    ndim = 2
    __pandas_priority__ = 5000  # pandas leaves operators to gx

    def __repr__(self) -> str:
        return f"<gx expression {self._text()}, {self.shape[0]}x{self.shape[1]}>"

    def _repr_html_(self) -> str:
        """In a notebook; nothing is computed."""
        return _notebook.line(repr(self))

    def _text(self) -> str:
        inner = [_described(operand) for operand in self._operands]
        for k, option in enumerate(("transa", "transb")):
            if self._options.get(option):
                inner[k] += ".T"
        return f"{self._function}({', '.join(inner)})"

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        """The rows."""
        return iter(np.asarray(self))

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"gx_sqlite: whether {self.shape[0]}x{self.shape[1]} elements are true is not one answer")
        return bool(np.asarray(self)[0, 0])

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def T(self) -> Expression:
        """The transpose, without the conjugate."""
        if self._function == "gx_transpose":
            return self._operands[0]  # type: ignore[no-any-return]
        return Expression(self._db, "gx_transpose", (self,), {}, (self.shape[1], self.shape[0]))

    def _is_sparse(self) -> bool:
        return self._function in KEEPS_SPARSE and all(_is_sparse(operand) for operand in self._operands)

    # Computing -------------------------------------------------------------------------------------------------------

    def _sql(self, parameters: list[Any]) -> str:
        """This expression as an argument; parameters get what it refers to."""
        parts = [_argument(operand, parameters) for operand in self._operands]
        if self._options:
            parameters.append(json.dumps(self._options))
            parts.append("?")
        return f"{self._function}({', '.join(parts)})"

    def fetch(self) -> Any:
        """The elements as an array, that cannot be written where gx's bytes are used as they are; sparse ones as a csr_matrix."""
        parameters: list[Any] = []
        sql = self._sql(parameters)
        return fetch(self._db, _connect.value(self._db, f"SELECT {sql}", parameters))

    def store(self, name: str, *, replace: bool = False) -> Matrix:
        """Compute and store it as the matrix `name`, of any size."""
        parameters: list[Any] = []
        parts = [_argument(operand, parameters) for operand in self._operands]
        parameters += [name, json.dumps({**self._options, "replace": replace})]
        _connect.value(self._db, f"SELECT {self._function}({', '.join([*parts, '?', '?'])})", parameters)
        return Matrix(self._db, name)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Array:
        if copy is False:
            raise ValueError("gx_sqlite: an array of a stored matrix or an expression is a copy")
        elements: Any = self.fetch()
        if not isinstance(elements, np.ndarray):
            raise TypeError("gx_sqlite: the matrix is sparse: fetch() gives SciPy's, gx_dense makes it dense")
        return np.array(elements, dtype) if copy or dtype is not None else elements

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **others: Any) -> Any:
        """NumPy's functions of elements, those that gx has, and array @ A: expressions, or elements for an array `out`."""
        name = ufunc.__name__ if method == "__call__" and not others else ""
        if name == "matmul":
            result = _product(self._db, *inputs)
        elif name in BINARY or name in MASKS:
            result = _elementwise(self._db, BINARY.get(name) or MASKS[name], *inputs)
        elif name in UNARY:
            result = self._mapped(UNARY[name])
        else:
            raise TypeError(f"gx_sqlite: np.{ufunc.__name__} is not computed by gx in this way: fetch() the elements first")
        if out is None or result is NotImplemented:
            return result
        out[0][...] = np.asarray(result)
        return out[0]

    def __getitem__(self, key: Any) -> Any:
        return self.fetch()[key]

    def _number(self, function: str, *arguments: Any) -> Any:
        parameters: list[Any] = []
        parts = [self._sql(parameters)] + ["?"] * len(arguments)
        return _connect.value(self._db, f"SELECT {function}({', '.join(parts)})", [*parameters, *arguments])

    def _reduced(self, function: str, axis: Optional[int], others: dict[str, Any]) -> Any:
        """A number, or along an axis a vector, as an array's methods give; NumPy's functions call them with its keywords."""
        ddof = others.pop("ddof", 0) if function in ("gx_var", "gx_std") else 0
        options = [json.dumps({"ddof": operator.index(ddof)})] if ddof else []
        given = [name for name, value in others.items() if value is not None]
        if given:
            raise TypeError(f"gx_sqlite: only axis is known here, not {', '.join(given)}: fetch() the elements first")
        if axis not in (None, 0, 1, -1, -2):
            raise ValueError(f"gx_sqlite: axis {axis} is none of a matrix's, 0 and 1")
        got = self._number(function, *([] if axis is None else [axis % 2]), *options)
        if isinstance(got, (int, float)) or got is None:
            number = float("nan") if got is None else float(got)  # the largest of what has a NaN is NULL
            return number if axis is None else np.array([number])
        elements = unpack(got)
        return elements[0, 0] if axis is None else elements.ravel()

    def sum(self, axis: Optional[int] = None, **others: Any) -> Any:
        return self._reduced("gx_sum", axis, others)

    def mean(self, axis: Optional[int] = None, **others: Any) -> Any:
        return self._reduced("gx_mean", axis, others)

    def min(self, axis: Optional[int] = None, **others: Any) -> Any:
        return self._reduced("gx_min", axis, others)

    def max(self, axis: Optional[int] = None, **others: Any) -> Any:
        return self._reduced("gx_max", axis, others)

    def var(self, axis: Optional[int] = None, **others: Any) -> Any:
        return self._reduced("gx_var", axis, others)

    def std(self, axis: Optional[int] = None, **others: Any) -> Any:
        return self._reduced("gx_std", axis, others)

    def prod(self, axis: Optional[int] = None, **others: Any) -> Any:
        return self._reduced("gx_prod", axis, others)

    def any(self, axis: Optional[int] = None, **others: Any) -> Any:
        return np.asarray(self._reduced("gx_any", axis, others)).astype(bool)[()]

    def all(self, axis: Optional[int] = None, **others: Any) -> Any:
        return np.asarray(self._reduced("gx_all", axis, others)).astype(bool)[()]

    def argmin(self, axis: Optional[int] = None, **others: Any) -> Any:
        """Where the least is, counted row by row, or along an axis."""
        return np.asarray(self._reduced("gx_argmin", axis, others)).astype(np.intp)[()]

    def argmax(self, axis: Optional[int] = None, **others: Any) -> Any:
        return np.asarray(self._reduced("gx_argmax", axis, others)).astype(np.intp)[()]

    def trace(self) -> Any:
        return self._reduced("gx_trace", None, {})

    def det(self) -> Any:
        return self._reduced("gx_det", None, {})

    def norm(self, kind: str = "fro") -> float:
        """The norm: 'fro', '1', 'inf', 'max' or '2'."""
        return float(self._number("gx_norm", kind))

    def show(self) -> str:
        """As NumPy prints it, with the middle left out."""
        return str(self._number("gx_show"))

    # Algebra ---------------------------------------------------------------------------------------------------------

    def inverse(self) -> Expression:
        return Expression(self._db, "gx_inverse", (self,), {}, self.shape)

    def solve(self, b: Operand) -> Expression:
        """x in A x = b."""
        b = _right_side(b)
        return Expression(self._db, "gx_solve", (self, b), {}, (self.shape[1], _shape(b)[1]))

    def lstsq(self, b: Operand) -> Expression:
        """x with the least ||A x - b||."""
        b = _right_side(b)
        return Expression(self._db, "gx_lstsq", (self, b), {}, (self.shape[1], _shape(b)[1]))

    def cholesky(self) -> Expression:
        """L, lower, with L L^H = A."""
        return Expression(self._db, "gx_cholesky", (self,), {}, self.shape)

    def cov(self, *, ddof: int = 1) -> Expression:
        """Covariances of the columns."""
        return Expression(self._db, "gx_cov", (self,), {"ddof": operator.index(ddof)}, (self.shape[1], self.shape[1]))

    def corr(self) -> Expression:
        """Correlations of the columns."""
        return Expression(self._db, "gx_corr", (self,), {}, (self.shape[1], self.shape[1]))

    def svd(self, k: Optional[int] = None, **options: Any) -> SVD:
        """The singular value decomposition, or the k largest values and their vectors, as arrays; options: gx_svd's."""
        rows = self._rows("sigma, u, v", "gx_svd", "k", k, options)
        m, n = self.shape
        return SVD(_side_by_side([row[1] for row in rows], m), np.array([row[0] for row in rows], float),
                   _side_by_side([row[2] for row in rows], n).conj().T)

    def eig(self, k: Optional[int] = None, **options: Any) -> Eigen:
        """Eigenvalues and eigenvectors, all or k of them, as arrays; options: gx_eig's, as which="SM"."""
        rows = self._rows("value, imag, vector", "gx_eig", "k", k, options)
        values = np.array([complex(row[0], row[1]) if row[1] else row[0] for row in rows])
        return Eigen(values if len(values) else values.astype(float), _side_by_side([row[2] for row in rows], self.shape[0]))

    def pca(self, k: Optional[int] = None, **options: Any) -> Components:
        """Principal components of the columns, all or the first k; options: gx_pca's, as standardize=True."""
        rows = self._rows("variance, ratio, vector", "gx_pca", "component", k, options)
        variance, ratio = (np.array([row[at] for row in rows], float) for at in (0, 1))
        return Components(variance, ratio, _side_by_side([row[2] for row in rows], self.shape[1]).T)

    def scores(self, k: Optional[int] = None, **options: Any) -> Array:
        """The rows in terms of the principal components, a column each; options: gx_pca's."""
        parameters: list[Any] = []
        data, again = self._sql(parameters), self._sql(parameters)
        count = "" if k is None else f"{operator.index(k)}, "
        elements: Array = fetch(self._db, _connect.value(
            self._db, f"SELECT gx_pca_project({data}, gx_pca({again}, {count}?))", [*parameters, json.dumps(options)]))
        return elements

    def _rows(self, columns: str, function: str, order: str, k: Optional[int], options: dict[str, Any]) -> list[Any]:
        """Rows of a table-valued function of this matrix."""
        parameters: list[Any] = []
        argument = self._sql(parameters)
        count = "" if k is None else f"{operator.index(k)}, "
        if function != "gx_pca" and k is not None:
            count, options = "", {"k": operator.index(k), **options}
        return _connect.rows(self._db, f"SELECT {columns} FROM {function}({argument}, {count}?) ORDER BY {order}",
                             [*parameters, json.dumps(options)])

    @property
    def columns(self) -> Optional[list[str]]:
        """Names of the columns, of a stored data frame; None: there are none."""
        return None

    def to_pandas(self) -> Any:
        """A DataFrame of the elements, with the names of the columns where they are known; a sparse matrix makes a sparse one."""
        import pandas
        elements = self.fetch()
        if isinstance(elements, np.ndarray):
            return pandas.DataFrame(elements, columns=self.columns)
        return pandas.DataFrame.sparse.from_spmatrix(elements, columns=self.columns)

    def __matmul__(self, other: Operand) -> Expression:
        return _product(self._db, self, other)

    def __rmatmul__(self, other: Operand) -> Expression:
        return _product(self._db, other, self)

    def __add__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_add", self, other)

    def __radd__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_add", other, self)

    def __sub__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_sub", self, other)

    def __rsub__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_sub", other, self)

    def __mul__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_mul", self, other)

    def __rmul__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_mul", other, self)

    def __truediv__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_div", self, other)

    def __rtruediv__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_div", other, self)

    def __pow__(self, other: Operand) -> Expression:
        """Of each element."""
        return _elementwise(self._db, "gx_pow", self, other)

    def __rpow__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_pow", other, self)

    def __mod__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_mod", self, other)

    def __rmod__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_mod", other, self)

    def __eq__(self, other: Any) -> Any:
        """Of each element: 1 or 0, as all comparisons."""
        return _elementwise(self._db, "gx_equal", self, other)

    def __ne__(self, other: Any) -> Any:
        return _elementwise(self._db, "gx_not_equal", self, other)

    def __lt__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_less", self, other)

    def __le__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_less_equal", self, other)

    def __gt__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_greater", self, other)

    def __ge__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_greater_equal", self, other)

    def __and__(self, other: Operand) -> Expression:
        """Of masks: what is not 0 is true, and the result 1 or 0."""
        return _elementwise(self._db, "gx_logical_and", self, other)

    __rand__ = __and__

    def __or__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_logical_or", self, other)

    __ror__ = __or__

    def __xor__(self, other: Operand) -> Expression:
        return _elementwise(self._db, "gx_logical_xor", self, other)

    __rxor__ = __xor__

    def __invert__(self) -> Expression:
        return self._mapped("gx_logical_not")

    def _mapped(self, function: str) -> Expression:
        return Expression(self._db, function, (self,), {}, self.shape)

    def __pos__(self) -> Expression:
        return self

    def __neg__(self) -> Expression:
        return self._mapped("gx_neg")

    def __abs__(self) -> Expression:
        return self._mapped("gx_abs")


class Matrix(Expression):
    """A stored matrix.  What it is, is asked for each time: the matrix of that name may be replaced."""

    def __init__(self, db: Any, name: str) -> None:
        if not isinstance(name, (str, bytes, int, float)):
            raise TypeError(f"gx_sqlite.matrix: a matrix's name is a text, not {type(name).__name__}")
        self._db = db
        self._function = ""  # no formula
        self.name = name
        self._catalog()  # in gx's words where there is none

    def _catalog(self) -> tuple[Shape, str]:
        (shape, dtype), = _connect.rows(self._db, "SELECT gx_shape(?), gx_dtype(?)", (self.name,) * 2)
        m, n = json.loads(shape)
        return (m, n), str(dtype)

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return self._catalog()[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        return DTYPES[self._catalog()[1]]

    def __repr__(self) -> str:
        (m, n), dtype = self._catalog()
        return f"<gx matrix {self.name!r}, {m}x{n} {dtype}>"

    def _repr_html_(self) -> str:
        """In a notebook: the first rows and columns."""
        m, n = self.shape
        i, j = _notebook.corner(m, n)
        elements: Any = self[0:i, 0:j]
        return _notebook.table(repr(self), (m, n), elements.toarray() if is_scipy(elements) else elements, self.columns)

    @property
    def columns(self) -> Optional[list[str]]:
        return _columns.of_matrix(self._db, self.name)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements in the database."""
        return int(json.loads(_connect.value(self._db, "SELECT gx_info(?)", (self.name,)))["bytes"])

    def __iter__(self) -> Iterator[Array]:
        """The rows, some megabytes of them read at a time."""
        m, n = self.shape
        height = max(1, _BAND // max(1, n * 8))
        for i in range(0, m, height):
            yield from self[i:i + height]

    def _text(self) -> str:
        return self.name

    def _is_sparse(self) -> bool:
        about: dict[str, Any] = json.loads(_connect.value(self._db, "SELECT gx_info(?)", (self.name,)))
        return about.get("format") == "sparse"

    def _sql(self, parameters: list[Any]) -> str:
        parameters.append(self.name)
        return "?"

    def fetch(self) -> Any:
        """The elements as an array; of a sparse matrix as a csr_matrix."""
        return fetch(self._db, self.name)

    def store(self, name: str, *, replace: bool = False) -> Matrix:
        """A copy."""
        _connect.value(self._db, "SELECT gx_copy(?, ?, ?)", (self.name, name, json.dumps({"replace": replace})))
        return Matrix(self._db, name)

    def __getitem__(self, key: Any) -> Any:
        """Elements as of an array, by integers, slices, and a list of rows or columns (numbers or booleans): a number, a
        vector or a matrix.  Of integers and slices nothing else is read."""
        m, n = self.shape
        keys = key if isinstance(key, tuple) else (key,)
        for at in [k for k, one in enumerate(keys) if one is Ellipsis][:1]:
            keys = keys[:at] + (slice(None),) * (3 - len(keys)) + keys[at + 1:]
        if len(keys) > 2:
            raise IndexError(f"gx_sqlite: {len(keys)} indexes for a matrix")
        row, column = (*keys, slice(None), slice(None))[:2]
        if _is_list(row) or _is_list(column):
            return self._take(row, column)
        i0, i1, rows = _range(row, m, "row")
        j0, j1, columns = _range(column, n, "column")
        piece = _connect.value(self._db, "SELECT gx_slice(?, ?, ?, ?, ?)", (self.name, i0, i1, j0, j1))
        return fetch(self._db, piece)[rows, columns]

    def _take(self, row: Any, column: Any) -> Any:
        """Rows or columns by a list; the other index is applied to what they are."""
        if _is_list(row) and _is_list(column):
            raise TypeError("gx_sqlite: a list of rows and one of columns: index by one, then by the other")
        axis = 0 if _is_list(row) else 1
        what = ("row", "column")[axis]
        chosen = _numbers((row, column)[axis], self.shape[axis], what)
        taken = fetch(self._db, _connect.value(self._db, "SELECT gx_take(?, ?, ?)", (self.name, pack(chosen), axis)))
        return taken[:, column] if axis == 0 else taken[row]


def _side_by_side(vectors: list[Buffer], rows: int) -> Array:
    """Values of one column each, which are that long, as one array."""
    return np.hstack([unpack(vector) for vector in vectors]) if vectors else np.empty((rows, 0))


def _is_sparse(operand: Any) -> bool:
    return operand._is_sparse() if isinstance(operand, Expression) else is_scipy(operand)


def _described(operand: Any) -> str:
    if isinstance(operand, Expression):
        return operand._text()
    shape = np.shape(operand)
    return f"array[{','.join(map(str, shape))}]" if shape else repr(operand)


def _is_list(key: Any) -> bool:
    return isinstance(key, (list, range, np.ndarray)) and np.ndim(key) > 0


def _numbers(key: Any, size: int, what: str) -> Array:
    """The rows that a list of numbers or booleans names, from 0."""
    chosen = np.asarray(key)
    if chosen.size == 0:
        chosen = chosen.astype(np.int64)
    if chosen.ndim != 1 or chosen.dtype.kind not in "biu":
        raise TypeError(f"gx_sqlite: {what}s are a list of integers or booleans, not {chosen.dtype}")
    if chosen.dtype.kind == "b":
        if len(chosen) != size:
            raise IndexError(f"gx_sqlite: {len(chosen)} booleans for {size} {what}s")
        return np.flatnonzero(chosen)
    outside = chosen[(chosen < -size) | (chosen >= size)]
    if len(outside) > 0:
        raise IndexError(f"gx_sqlite: {what} {outside[0]} is outside 0..{size - 1}")
    return chosen


def _range(key: Any, size: int, what: str) -> tuple[int, int, Any]:
    """First and end of what is read, and the key within that."""
    if isinstance(key, slice):
        chosen = range(size)[key]
        if len(chosen) == 0:
            return 0, 0, slice(0, 0)
        least, most = min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1])
        return least, most + 1, slice(None, None, chosen.step)
    try:
        index = operator.index(key) if not isinstance(key, (bool, np.bool_)) else None
    except TypeError:
        index = None
    if index is None:
        raise TypeError(f"gx_sqlite: a {what} is an integer or a slice, not {type(key).__name__}")
    if not -size <= index < size:
        raise IndexError(f"gx_sqlite: {what} {index} is outside 0..{size - 1}")
    return index % size, index % size + 1, 0


def _operand(operand: Any, vector: tuple[int, int]) -> Any:
    """What gx computes with: an array of two dimensions, a vector as `vector` says; NotImplemented where it is none."""
    if isinstance(operand, (Expression, numbers.Number)) or is_scipy(operand):
        return operand if not isinstance(operand, Decimal) else float(operand)
    array = plain(operand)
    if array.dtype.kind not in "biufc" or array.ndim > 2:
        return NotImplemented
    return array.reshape(vector) if array.ndim == 1 else array


def _right_side(b: Any) -> Any:
    """Of a system: a vector is a column."""
    column = _operand(b, (-1, 1))
    if column is NotImplemented:
        raise TypeError(f"gx_sqlite: the right-hand side is a matrix, an expression or an array, not {type(b).__name__}")
    return column


def _shape(operand: Operand) -> Shape:
    if isinstance(operand, Expression):
        return operand.shape
    m, n = (*np.shape(operand), 1, 1)[:2]
    return m, n


def _argument(operand: Any, parameters: list[Any]) -> str:
    if isinstance(operand, Expression):
        return operand._sql(parameters)
    if isinstance(operand, numbers.Real):
        number = float(operand)
        parameters.append(number if number == number else pack(number))  # SQLite makes NULL of NaN
    elif is_scipy(operand):
        parameters.append(pack_sparse(operand))
    else:
        parameters.append(pack(operand))
    return "?"


def _product(db: Any, a: Operand, b: Operand) -> Expression:
    """A vector on the left is a row, on the right a column, as NumPy's."""
    a, b = _operand(a, (1, -1)), _operand(b, (-1, 1))
    if a is NotImplemented or b is NotImplemented:
        return NotImplemented  # type: ignore[no-any-return]
    (m, k), (l, n) = _shape(a), _shape(b)
    if k != l:
        raise ValueError(f"gx_sqlite: the product of {m}x{k} and {l}x{n}")
    options: dict[str, Any] = {}
    if _is_sparse(a) and _is_sparse(b):  # gx's product of two sparse matrices takes them as they are
        return Expression(db, "gx_matmul", (a, b), options, (m, n))
    if type(a) is Expression and a._function == "gx_transpose":  # of no factor a transpose is made
        a, options["transa"] = a._operands[0], True
    if type(b) is Expression and b._function == "gx_transpose":
        b, options["transb"] = b._operands[0], True
    return Expression(db, "gx_matmul", (a, b), options, (m, n))


def _elementwise(db: Any, function: str, a: Operand, b: Operand) -> Expression:
    """A vector is a row, as NumPy's: A - A.mean(axis=0) has columns of mean 0."""
    a, b = _operand(a, (1, -1)), _operand(b, (1, -1))
    if a is NotImplemented or b is NotImplemented:
        return NotImplemented  # type: ignore[no-any-return]
    (m, n), (k, l) = _shape(a), _shape(b)
    if not (m == k or 1 in (m, k)) or not (n == l or 1 in (n, l)):
        raise ValueError(f"gx_sqlite: {m}x{n} and {k}x{l} have no elements in common places")
    return Expression(db, function, (a, b), {}, (k if m == 1 else m, l if n == 1 else n))
