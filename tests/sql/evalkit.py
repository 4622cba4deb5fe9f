"""Random programs of gx_eval with what NumPy says of them.

An expression is a text and a function of the variables' values; whoever makes one evaluates it at once and rejects what is
not finite, too large, or decided by rounding (a comparison of nearly equal numbers), so that any two ways of
computing it agree within a tolerance that is known.
"""
import numpy as np

DTYPES = [np.float64, np.float64, np.float32, np.complex128, np.complex64]


class Reject(Exception):
    """The expression is not for a comparison."""


class Generator:
    """Programs over the stored matrices A .. F, the arguments ?1 (a matrix) and ?2 (a number)."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.sides = [int(s) for s in self.rng.choice([1, 2, 3, 4, 5, 7], 3)]
        self.largest = 1.0
        self.single = False
        self.env = {name: self.matrix(self.side(), self.side()) for name in "ABCDEF"}
        self.env["?1"] = self.matrix(self.side(), self.side())
        self.env["?2"] = float(np.round(self.rng.uniform(-2, 2), 3))
        self.stored = {name: self.env[name] for name in "ABCDEF"}

    def side(self):
        return int(self.rng.choice(self.sides + [1]))

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def matrix(self, m, n):
        dtype = self.pick(DTYPES)
        x = self.rng.uniform(-2, 2, (m, n)).round(3)
        if np.issubdtype(dtype, np.complexfloating):
            x = x + 1j * self.rng.uniform(-2, 2, (m, n)).round(3)
        return x.astype(dtype)

    # values

    def seen(self, value):
        """A value within bounds."""
        array = np.asarray(value)
        if array.ndim == 2 and array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1) == 4:
            self.single = True
        if array.size and not np.all(np.isfinite(array)):
            raise Reject
        size = float(np.max(np.abs(array))) if array.size else 0.0
        if size > 1e4:
            raise Reject
        self.largest = max(self.largest, size)
        return value

    def decided(self, a, b):
        """No two elements are nearly equal, unless they are the same number."""
        gap = np.abs(np.asarray(a) - np.asarray(b))
        if np.any((gap < 1e-2) & (gap != 0)) or np.any(gap == 0):
            raise Reject

    # expressions: (text, function of the variables)

    def name(self, test=lambda x: True):
        names = [n for n, x in self.env.items() if isinstance(x, np.ndarray) and test(x)]
        if not names:
            raise Reject
        n = self.pick(names)
        return n, lambda env: env[n]

    def number(self):
        if self.rng.random() < 0.2:
            return "?2", lambda env: env["?2"]
        value = self.pick([0.5, 2.0, -1.5, 3.0, 0.25])
        return f"{value}" if value >= 0 else f"({value})", lambda env: value

    def value(self, e):
        return self.seen(e[1](self.env))

    def expression(self, depth):
        if depth == 0 or self.rng.random() < 0.15:
            return self.name()
        make = self.pick([self.unary, self.unary, self.binary, self.binary, self.binary, self.scaled, self.product,
                          self.reduction, self.choice, self.other, self.part])
        e = make(depth - 1)
        self.value(e)
        return e

    def real(self, e):
        x = self.value(e)
        if np.iscomplexobj(x):
            t, f = e
            return f"real({t})", lambda env: np.real(f(env))
        return e

    def unary(self, depth):
        t, f = self.expression(depth)
        if np.iscomplexobj(self.value((t, f))):
            text, fn = self.pick([("-{}", np.negative), ("abs({})", np.abs), ("conj({})", np.conj), ("real({})", np.real),
                                  ("imag({})", np.imag), ("{}.T", np.transpose), ("{}.H", lambda x: x.conj().T),
                                  ("square({})", np.square), ("exp(-abs({}))", lambda x: np.exp(-np.abs(x)))])
        else:
            text, fn = self.pick([
                ("-{}", np.negative), ("abs({})", np.abs), ("sqrt(abs({}))", lambda x: np.sqrt(np.abs(x))),
                ("exp(-abs({}))", lambda x: np.exp(-np.abs(x))), ("tanh({})", np.tanh), ("sin({})", np.sin),
                ("cos({})", np.cos), ("log(abs({}) + 1)", lambda x: np.log(np.abs(x) + 1)), ("square({})", np.square),
                ("{}.T", np.transpose), ("{}.H", np.transpose), ("relu({})", lambda x: np.maximum(x, 0)),
                ("{} ** 2", lambda x: x ** 2), ("atan({})", np.arctan), ("sigmoid({})", lambda x: 1 / (1 + np.exp(-x))),
                ("clip({}, -1, 1)", lambda x: np.clip(x, -1, 1)), ("reciprocal(abs({}) + 1)", lambda x: 1 / (np.abs(x) + 1))])
        return text.format(f"({t})"), lambda env: fn(f(env))

    def pair(self, depth):
        a = self.expression(depth)
        x = self.value(a)
        for _ in range(4):
            b = self.expression(depth)
            y = self.value(b)
            if all(p == q or 1 in (p, q) for p, q in zip(x.shape, y.shape)):
                return a, b
        raise Reject

    def binary(self, depth):
        (s, f), (t, g) = self.pair(depth)
        text, fn = self.pick([("{} + {}", np.add), ("{} - {}", np.subtract), ("{} * {}", np.multiply),
                              ("{} / (abs({}) + 1)", lambda x, y: x / (np.abs(y) + 1))])
        return text.format(f"({s})", f"({t})"), lambda env: fn(f(env), g(env))

    def scaled(self, depth):
        t, f = self.expression(depth)
        s, g = self.number()
        text, fn = self.pick([("{1} * {0}", lambda x, c: c * x), ("{0} + {1}", lambda x, c: x + c),
                              ("{1} - {0}", lambda x, c: c - x), ("{0} * {1}", lambda x, c: x * c)])
        return text.format(f"({t})", s), lambda env: fn(f(env), g(env))

    def product(self, depth):
        s, f = self.expression(depth)
        inner = self.value((s, f)).shape[1]
        t, g = self.name(lambda x: x.shape[0] == inner)
        return f"({s}) @ ({t})", lambda env: f(env) @ g(env)

    def reduction(self, depth):
        t, f = self.expression(depth)
        x = self.value((t, f))
        name, fn = self.pick([("sum", np.sum), ("mean", np.mean), ("prod", np.prod), ("min", np.min), ("max", np.max),
                              ("var", np.var), ("std", np.std), ("median", np.median)])
        if np.iscomplexobj(x) and name in ("min", "max", "median"):
            raise Reject
        dtype = np.real(x).dtype if name in ("var", "std") else x.dtype
        axis = self.pick([None, 0, 1])
        tail = "" if axis is None else f", {axis}"
        if self.rng.random() < 0.2:
            return f"norm({t})", lambda env: np.array([[np.linalg.norm(f(env))]], np.real(f(env)).dtype)
        wide = np.complex128 if np.iscomplexobj(x) else np.float64
        return f"{name}({t}{tail})", lambda env: np.asarray(fn(f(env).astype(wide), axis=axis, keepdims=True)).astype(
            np.promote_types(dtype, f(env).dtype) if np.iscomplexobj(f(env)) and not name in ("var", "std") else dtype)

    def choice(self, depth):
        a, b = self.pair(depth)
        (s, f), (t, g) = self.real(a), self.real(b)
        self.decided(f(self.env), g(self.env))
        sign, fn = self.pick([("<", np.less), (">", np.greater), ("<=", np.less_equal), (">=", np.greater_equal)])

        def compare(env):
            x, y = f(env), g(env)
            self.decided(x, y)
            return fn(x, y).astype(np.promote_types(x.dtype, y.dtype))

        text = f"(({s}) {sign} ({t}))"
        if self.rng.random() < 0.5:
            return text, compare

        def where(env):
            x, y = f(env), g(env)
            self.decided(x, y)
            return np.where(fn(x, y), x, y)

        return f"where({text}, {s}, {t})", where

    def other(self, depth):
        t, f = self.expression(depth)
        x = self.value((t, f))
        m, n = x.shape
        options = [("cumsum({}, 0)", lambda x: np.cumsum(x, 0)), ("cumsum({}, 1)", lambda x: np.cumsum(x, 1)),
                   ("flip({}, 0)", lambda x: np.flip(x, 0)), ("flip({})", np.flip), ("triu({})", np.triu),
                   ("tril({}, -1)", lambda x: np.tril(x, -1)), ("roll({}, 1, 0)", lambda x: np.roll(x, 1, 0)),
                   (f"reshape({{}}, {n}, {m})", lambda x: x.reshape(x.shape[1], x.shape[0])),
                   ("hstack({0}, {0})", lambda x: np.hstack([x, x])), ("vstack({0}, {0})", lambda x: np.vstack([x, x])),
                   ("tile({}, 1, 2)", lambda x: np.tile(x, (1, 2))), ("repeat({}, 2, 0)", lambda x: np.repeat(x, 2, 0)),
                   ("block([[{0}, {0}], [{0}, 2 * ({0})]])", lambda x: np.block([[x, x], [x, 2 * x]])),
                   ("einsum('ij->ji', {})", np.transpose), ("einsum('ij,kj->ik', {0}, {0})", lambda x: x @ x.T),
                   ("einsum('ij,ij->j', {0}, {0})", lambda x: np.sum(x * x, 0)[:, None]),
                   ("einsum('ij,kj,kl->il', {0}, {0}, {0})", lambda x: x @ x.T @ x)]
        if m > 1 and n > 1:
            options.append(("diag({})", lambda x: np.diag(x).reshape(-1, 1)))
        text, fn = self.pick(options)
        if max(m, n) > 16:
            raise Reject
        return text.format(t), lambda env: fn(f(env))

    def part(self, depth):
        t, f = self.expression(depth)
        m, n = self.value((t, f)).shape
        i, j = int(self.rng.integers(m)), int(self.rng.integers(n))
        text, fn = self.pick([(f"[{i}, :]", lambda x: x[i:i + 1, :]), (f"[:, {j}]", lambda x: x[:, j:j + 1]),
                              (f"[{i}:, :{j + 1}]", lambda x: x[i:, :j + 1]), ("[::-1, :]", lambda x: x[::-1, :]),
                              (f"[{i}, {j}]", lambda x: x[i:i + 1, j:j + 1])])
        return f"({t}){text}", lambda env: fn(f(env))

    # statements

    def attempt(self, make, tries=30):
        for _ in range(tries):
            try:
                with np.errstate(all="ignore"):
                    return make()
            except Reject:
                continue
        return None

    def assign(self, name):
        t, f = self.expression(3)
        self.env[name] = self.value((t, f))
        return f"{name} = {t}"

    def loop(self, name):
        """A loop that keeps a variable's shape and dtype within bounds."""
        v, _ = self.name()
        t, f = self.expression(2)
        rounds = int(self.rng.integers(1, 5))
        if self.value((t, f)).shape != self.env[v].shape:
            raise Reject
        env, before = dict(self.env), self.env
        env[name] = env[v]
        try:
            self.env = env
            for _ in range(rounds):
                env[name] = self.seen(np.add(env[name] * 0.5, f(env)))
        finally:
            self.env = before
        self.env[name] = env[name]
        return f"{name} = {v}; repeat {rounds} {{ {name} = {name} * 0.5 + ({t}) }}"

    def program(self, length):
        """(text, value, tolerance)."""
        lines, latest = [], None
        for k in range(length):
            name = f"v{k}"
            line = self.attempt(lambda: self.loop(name) if self.rng.random() < 0.15 else self.assign(name))
            if line is not None:
                lines.append(line)
                latest = name
        if latest is None:
            return None
        names = [f"v{k}" for k in range(length) if f"v{k}" in self.env]
        latest = self.pick(names[-3:])
        tolerance = (2e-3 if self.single else 1e-9) * self.largest
        return "; ".join(lines) + f"; {latest}", self.env[latest], tolerance


def larger(seed, side):
    """A generator whose operands are of this side and one more."""
    generator = Generator(seed)
    generator.sides = [side, side + 1]
    generator.env = {name: generator.matrix(generator.side(), generator.side()) for name in "ABCDEF"}
    generator.stored = dict(generator.env)
    generator.env |= {"?1": generator.matrix(side, side + 1), "?2": 0.5}
    return generator
