/*
** Elements and functions of them as the device code has them: a number is a pair of doubles,
** whatever the dtype, and a function of map.h one expression of real numbers, and one of complex
** numbers where that is another.
**
** f32 parts are worked on as doubles and rounded once, in the formulas and the order of
** kernels/cpu_block.c, and nothing is contracted (-fmad=false): where map.h says so the results
** have the CPU's bits.  Complex quotients take x conj(y) / |y|^2 where every term keeps its digits,
** as the CPU does, and else scale both numbers by powers of two and mend Inf and NaN as Annex G of
** C11 has it.
**
** nvcc compiles this text into the kernels, and NVRTC, which has no header, once more into those it
** makes while gx runs: it includes nothing, and of its own time only uses the kinds
** GX_MAP_NAME, which come before it.
*/
#ifndef GX_CUDA_FUNCTIONS_CUH
#define GX_CUDA_FUNCTIONS_CUH

#define GX_INF __longlong_as_double(0x7ff0000000000000ll)
#define GX_NAN __longlong_as_double(0x7ff8000000000000ll)

__device__ inline bool is_nan(double x)
{
    return x != x;
}

__device__ inline bool is_infinite(double x)
{
    return fabs(x) == GX_INF;
}

__device__ inline bool is_finite(double x)
{
    return fabs(x) < GX_INF;
}

struct number {
    double re, im;
};

// Loading and storing -----------------------------------------------------------------------------

__device__ inline number get(const double *x, long long at)
{
    return {x[at], 0};
}

__device__ inline number get(const float *x, long long at)
{
    return {(double)x[at], 0};
}

__device__ inline number get(const double2 *x, long long at)
{
    double2 e = x[at];
    return {e.x, e.y};
}

__device__ inline number get(const float2 *x, long long at)
{
    float2 e = x[at];
    return {(double)e.x, (double)e.y};
}

__device__ inline void put(double *x, long long at, number value)
{
    x[at] = value.re;
}

__device__ inline void put(float *x, long long at, number value)
{
    x[at] = (float)value.re;
}

__device__ inline void put(double2 *x, long long at, number value)
{
    x[at] = make_double2(value.re, value.im);
}

__device__ inline void put(float2 *x, long long at, number value)
{
    x[at] = make_float2((float)value.re, (float)value.im);
}

template <class T> struct facts;
template <> struct facts<double> {
    static constexpr bool is_complex = false;
};
template <> struct facts<float> {
    static constexpr bool is_complex = false;
};
template <> struct facts<double2> {
    static constexpr bool is_complex = true;
};
template <> struct facts<float2> {
    static constexpr bool is_complex = true;
};

// Arithmetic --------------------------------------------------------------------------------------

__device__ inline number times(number x, number y)
{
    return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}

/* s x with a scalar: part by part where s is real, so that an Inf in one part stays there. */
template <class T> __device__ inline number scaled(number s, number x)
{
    if (!facts<T>::is_complex || s.im == 0) {
        return {s.re * x.re, s.re * x.im};
    }
    return times(s, x);
}

/* |x| where squares of the parts overflow or lose bits: by way of scaled ones. */
__device__ __noinline__ inline double careful_magnitude(number x)
{
    if (is_infinite(x.re) || is_infinite(x.im)) {
        return GX_INF;
    }
    bool is_tiny = fabs(x.re) < 1 && fabs(x.im) < 1;
    double scale = is_tiny ? 0x1p600 : 0x1p-600, back = is_tiny ? 0x1p-600 : 0x1p600;
    double re = x.re * scale, im = x.im * scale;
    return sqrt(re * re + im * im) * back;
}

template <class T> __device__ inline double magnitude(number x)
{
    if (!facts<T>::is_complex) {
        return fabs(x.re);
    }
    double s = x.re * x.re + x.im * x.im;
    return s > 0x1p-900 && s < GX_INF ? sqrt(s) : careful_magnitude(x);
}

// Division ----------------------------------------------------------------------------------------

/* Annex G, 5.1: a quotient that came out NaN although Inf or 0 has a better answer. */
__device__ __noinline__ number mended(number x, number y, number z)
{
    bool is_x_finite = is_finite(x.re) && is_finite(x.im);
    bool is_y_finite = is_finite(y.re) && is_finite(y.im);
    if (y.re == 0 && y.im == 0 && (!is_nan(x.re) || !is_nan(x.im))) {
        double big = copysign(GX_INF, y.re);
        return {big * x.re, big * x.im};
    }
    if ((is_infinite(x.re) || is_infinite(x.im)) && is_y_finite) {
        number u = {copysign(is_infinite(x.re) ? 1.0 : 0.0, x.re),
                    copysign(is_infinite(x.im) ? 1.0 : 0.0, x.im)};
        return {GX_INF * (u.re * y.re + u.im * y.im),
                GX_INF * (u.im * y.re - u.re * y.im)};
    }
    if ((is_infinite(y.re) || is_infinite(y.im)) && is_x_finite) {
        number u = {copysign(is_infinite(y.re) ? 1.0 : 0.0, y.re),
                    copysign(is_infinite(y.im) ? 1.0 : 0.0, y.im)};
        return {0.0 * (x.re * u.re + x.im * u.im), 0.0 * (x.im * u.re - x.re * u.im)};
    }
    return z;
}

/* The exponent of the larger part; 0 where there is none. */
__device__ inline int exponent_of(number x)
{
    double most = fmax(fabs(x.re), fabs(x.im));
    return most > 0 && most < GX_INF ? ilogb(most) : 0;
}

__device__ __noinline__ number divide_with_care(number x, number y)
{
    int ex = exponent_of(x), ey = exponent_of(y);
    number u = {scalbn(x.re, -ex), scalbn(x.im, -ex)}, v = {scalbn(y.re, -ey), scalbn(y.im, -ey)};
    double yy = v.re * v.re + v.im * v.im;
    number z = {scalbn((u.re * v.re + u.im * v.im) / yy, ex - ey),
                scalbn((u.im * v.re - u.re * v.im) / yy, ex - ey)};
    return is_nan(z.re) && is_nan(z.im) ? mended(x, y, z) : z;
}

template <class T> __device__ inline number divided(number x, number y)
{
    if (!facts<T>::is_complex) {
        return {x.re / y.re, 0};
    }
    double yy = y.re * y.re + y.im * y.im, xx = x.re * x.re + x.im * x.im;
    if (!(yy > 0x1p-500 && yy < 0x1p500 && xx > 0x1p-500 && xx < 0x1p500)) {
        return divide_with_care(x, y);
    }
    number z = times(x, {y.re, -y.im});
    return {z.re / yy, z.im / yy};
}

// Functions of complex numbers, as Annex G has them -----------------------------------------------

__device__ __noinline__ number exponential(number z)
{
    constexpr double HIGH = 700; // e^HIGH and e^(x - HIGH) are finite where e^x cos y can be
    if (z.im == 0) {
        return {exp(z.re), z.im};
    }
    if (!is_finite(z.im)) {
        if (!is_infinite(z.re)) {
            return {GX_NAN, GX_NAN};
        }
        return z.re > 0 ? number{z.re, GX_NAN} : number{0, copysign(0.0, z.im)};
    }
    double s, c, last = z.re > HIGH ? exp(z.re - HIGH) : 1, size = exp(fmin(z.re, HIGH));
    sincos(z.im, &s, &c);
    size = is_nan(z.re) ? z.re : size;
    return {size * c * last, size * s * last};
}

/* log |z| near 1 by way of |z|^2 - 1, and at the ends of the exponents of a scaled z. */
__device__ __noinline__ number logarithm(number z)
{
    constexpr double STEP = 600 * 0.69314718055994530942; // log 2^600
    double x = fmax(fabs(z.re), fabs(z.im)), y = fmin(fabs(z.re), fabs(z.im)), size;
    double angle = atan2(z.im, z.re);
    if (is_infinite(z.re) || is_infinite(z.im)) {
        size = GX_INF;
    } else if (is_nan(z.re) || is_nan(z.im)) {
        size = GX_NAN;
    } else if (x > 0.5 && x < 2) {
        size = 0.5 * log1p((x - 1) * (x + 1) + y * y);
    } else if (x > 0x1p500) {
        size = log(hypot(x * 0x1p-600, y * 0x1p-600)) + STEP;
    } else if (x < 0x1p-500 && x > 0) {
        size = log(hypot(x * 0x1p600, y * 0x1p600)) - STEP;
    } else {
        size = log(hypot(x, y));
    }
    return {size, angle};
}

/* The root with a positive real part, of z brought to the middle of the exponents. */
__device__ __noinline__ number square_root(number z)
{
    double most = fmax(fabs(z.re), fabs(z.im));
    if (is_infinite(z.im) || (z.re == 0 && z.im == 0)) {
        return {is_infinite(z.im) ? GX_INF : 0, z.im};
    }
    if (is_infinite(z.re)) {
        double other = is_nan(z.im) ? z.im : 0;
        return z.re > 0 ? number{z.re, is_nan(z.im) ? z.im : copysign(0.0, z.im)}
                        : number{other, copysign(GX_INF, z.im)};
    }
    if (is_nan(z.re) || is_nan(z.im)) {
        return {GX_NAN, GX_NAN};
    }
    int k = ilogb(most) / 2; // z = 4^k (x + iy)
    double x = scalbn(z.re, -2 * k), y = scalbn(z.im, -2 * k), size = sqrt(x * x + y * y);
    double part = sqrt((fabs(x) + size) / 2), rest = fabs(y) / (2 * part);
    part = scalbn(part, k);
    rest = scalbn(rest, k);
    return x >= 0 ? number{part, copysign(rest, z.im)} : number{rest, copysign(part, z.im)};
}

// Functions of complex numbers that have no special cases of their own ---------------------------

__device__ __noinline__ number hyperbolic_sine(number z)
{
    if (fabs(z.re) > 700) { // e^|x| / 2, of the sign of x, with the angle of conj z below 0
        number e = exponential({fabs(z.re), z.re < 0 ? -z.im : z.im});
        return {copysign(1.0, z.re) * e.re * 0.5, copysign(1.0, z.re) * e.im * 0.5};
    }
    return {sinh(z.re) * cos(z.im), z.im == 0 ? z.im : cosh(z.re) * sin(z.im)};
}

__device__ __noinline__ number hyperbolic_cosine(number z)
{
    if (fabs(z.re) > 700) {
        number e = exponential({fabs(z.re), z.re < 0 ? -z.im : z.im});
        return {e.re * 0.5, e.im * 0.5};
    }
    return {cosh(z.re) * cos(z.im), z.im == 0 ? z.re * z.im : sinh(z.re) * sin(z.im)};
}

/* Kahan, "Branch cuts for complex elementary functions" (1987). */
__device__ __noinline__ number hyperbolic_tangent(number z)
{
    if (fabs(z.re) > 20) {
        return {copysign(1.0, z.re), 4 * sin(z.im) * cos(z.im) * exp(-2 * fabs(z.re))};
    }
    double t = tan(z.im), s = sinh(z.re), beta = 1 + t * t, size = 1 + beta * s * s;
    return {beta * sqrt(1 + s * s) * s / size, t / size};
}

/* f(iz) / i of a hyperbolic function f. */
__device__ inline number turned_back(number z)
{
    return {z.im, -z.re};
}

__device__ __noinline__ number arc_sine(number z)
{
    number up = square_root({1 + z.re, z.im}), down = square_root({1 - z.re, -z.im});
    return {atan2(z.re, up.re * down.re - up.im * down.im),
            asinh(down.re * up.im - down.im * up.re)};
}

__device__ __noinline__ number arc_cosine(number z)
{
    number up = square_root({1 + z.re, z.im}), down = square_root({1 - z.re, -z.im});
    return {2 * atan2(down.re, up.re), asinh(up.re * down.im - up.im * down.re)};
}

__device__ __noinline__ number arc_hyperbolic_tangent(number z)
{
    double x = fabs(z.re), y = z.re < 0 ? -z.im : z.im, rest = 1 - x, sign = copysign(1.0, z.re);
    double re = 0.25 * log1p(4 * x / (rest * rest + y * y));
    return {sign * re, sign * 0.5 * atan2(2 * y, rest * (1 + x) - y * y)};
}

__device__ __noinline__ number exponential_less_1(number z)
{
    double half = sin(z.im / 2);
    return {expm1(z.re) * cos(z.im) - 2 * half * half,
            z.im == 0 ? z.im : exp(z.re) * sin(z.im)};
}

__device__ __noinline__ number logarithm_of_1_more(number z)
{
    if (fabs(z.re) < 0.5 && fabs(z.im) < 0.5) {
        return {0.5 * log1p(z.re * (2 + z.re) + z.im * z.im), atan2(z.im, 1 + z.re)};
    }
    return logarithm({1 + z.re, z.im});
}

__device__ __noinline__ number power(number a, number b)
{
    double n = b.re;
    bool is_whole = b.im == 0 && fabs(n) <= 64 && n == rint(n);
    if (a.re == 0 && a.im == 0 && !(is_whole && n == 0)) {
        return n > 0 ? number{0, 0} : number{GX_NAN, GX_NAN};
    }
    if (is_whole) {
        number product = {1, 0}, factor = a;
        bool is_first = true;
        for (int k = (int)fabs(n); k > 0; k /= 2, factor = times(factor, factor)) {
            if (k % 2 == 1) {
                product = is_first ? factor : times(product, factor);
                is_first = false;
            }
        }
        return n < 0 ? divided<double2>({1, 0}, product) : product;
    }
    return exponential(times(b, logarithm(a)));
}

/* z / |z|, as gx_csign() of kernels/pairs.h. */
__device__ __noinline__ number direction(number z)
{
    bool is_far = is_infinite(z.re), is_high = is_infinite(z.im);
    if (is_nan(z.re) || is_nan(z.im) || (is_far && is_high)) {
        return {GX_NAN, GX_NAN};
    }
    if (is_far || is_high) {
        return is_far ? number{copysign(1.0, z.re), 0} : number{0, copysign(1.0, z.im)};
    }
    double size = hypot(z.re, z.im), unit = is_infinite(size) ? 0.25 : size < 0x1p-500 ? 0x1p600 : 1;
    size = unit == 1 ? size : hypot(z.re * unit, z.im * unit);
    return size == 0 ? number{0, 0} : number{z.re * unit / size, z.im * unit / size};
}

// The functions -----------------------------------------------------------------------------------

__device__ inline double remainder_of(double a, double b)
{
    double r = fmod(a, b);
    return r == 0 ? copysign(0.0, b) : (r < 0) != (b < 0) ? r + b : r;
}

__device__ inline double larger_of(double a, double b)
{
    return a != a || a > b ? a : b;
}

__device__ inline double smaller_of(double a, double b)
{
    return a != a || a < b ? a : b;
}

__device__ inline double sigmoid_of(double a)
{
    double e = exp(-fabs(a)), share = 1 / (1 + e);
    return a < 0 ? e * share : share;
}

#define OF(KIND, expression)                                                                       \
    case GX_MAP_##KIND:                                                                            \
        return expression;

__device__ __forceinline__ double of_real(int kind, double alpha, double beta, double a, double b,
                                          double c)
{
    switch (kind) {
        OF(ADD, alpha * a + beta * b)
        OF(MUL, a * b)
        OF(DIV, a / b)
        OF(SCALE, alpha * a)
        OF(CONJ, a)
        OF(ABS, fabs(a))
        OF(REAL, a)
        OF(IMAG, 0)
        OF(ARG, a != a ? a : copysign(1.0, a) < 0 ? 3.14159265358979323846 : 0)
        OF(SQUARE, a * a)
        OF(RECIPROCAL, 1 / a)
        OF(SQRT, sqrt(a))
        OF(CBRT, cbrt(a))
        OF(POW, pow(a, b))
        OF(HYPOT, hypot(a, b))
        OF(MOD, remainder_of(a, b))
        OF(EXP, exp(a))
        OF(EXPM1, expm1(a))
        OF(LOG, log(a))
        OF(LOG1P, log1p(a))
        OF(LOG2, log2(a))
        OF(LOG10, log10(a))
        OF(SIN, sin(a))
        OF(COS, cos(a))
        OF(TAN, tan(a))
        OF(ASIN, asin(a))
        OF(ACOS, acos(a))
        OF(ATAN, atan(a))
        OF(ATAN2, atan2(a, b))
        OF(SINH, sinh(a))
        OF(COSH, cosh(a))
        OF(TANH, tanh(a))
        OF(ASINH, asinh(a))
        OF(ERF, erf(a))
        OF(ERFC, erfc(a))
        OF(GAMMA, tgamma(a))
        OF(LGAMMA, lgamma(a))
        OF(FLOOR, floor(a))
        OF(CEIL, ceil(a))
        OF(ROUND, rint(a))
        OF(TRUNC, trunc(a))
        OF(SIGN, a > 0 ? 1 : a < 0 ? -1 : a == 0 ? 0 : a)
        OF(MAXIMUM, larger_of(a, b))
        OF(MINIMUM, smaller_of(a, b))
        OF(CLIP, smaller_of(larger_of(a, b), c))
        OF(WHERE, a != 0 ? b : c)
        OF(ISNAN, is_nan(a))
        OF(ISINF, is_infinite(a))
        OF(ISFINITE, is_finite(a))
        OF(EQUAL, a == b)
        OF(NOT_EQUAL, a != b)
        OF(LESS, a < b)
        OF(LESS_EQUAL, a <= b)
        OF(GREATER, a > b)
        OF(GREATER_EQUAL, a >= b)
        OF(LOGICAL_AND, a != 0 && b != 0)
        OF(LOGICAL_OR, a != 0 || b != 0)
        OF(LOGICAL_XOR, (a != 0) != (b != 0))
        OF(LOGICAL_NOT, a == 0)
        OF(RELU, a != a || a > 0 ? a : 0)
        OF(SIGMOID, sigmoid_of(a))
        OF(SOFTPLUS, (a > 0 ? a : 0) + log1p(exp(-fabs(a))))
        OF(GELU, a < -40 ? -0.0 : 0.5 * a * erfc(-a * 0.70710678118654752440))
    }
    return GX_NAN;
}

__device__ inline bool is_set(number x)
{
    return x.re != 0 || x.im != 0;
}

__device__ inline number only(double re)
{
    return {re, 0};
}

__device__ inline number sum_of(number x, number y)
{
    return {x.re + y.re, x.im + y.im};
}

__device__ __forceinline__ number of_pair(int kind, number alpha, number beta, number a, number b,
                                          number c)
{
    switch (kind) {
        OF(ADD, sum_of(scaled<double2>(alpha, a), scaled<double2>(beta, b)))
        OF(MUL, times(a, b))
        OF(DIV, divided<double2>(a, b))
        OF(SCALE, scaled<double2>(alpha, a))
        OF(CONJ, number({a.re, -a.im}))
        OF(ABS, only(magnitude<double2>(a)))
        OF(REAL, only(a.re))
        OF(IMAG, only(a.im))
        OF(ARG, only(atan2(a.im, a.re)))
        OF(SQUARE, times(a, a))
        OF(RECIPROCAL, divided<double2>(only(1), a))
        OF(SQRT, square_root(a))
        OF(POW, power(a, b))
        OF(EXP, exponential(a))
        OF(EXPM1, exponential_less_1(a))
        OF(LOG, logarithm(a))
        OF(LOG1P, logarithm_of_1_more(a))
        OF(LOG2, scaled<double2>(only(1.44269504088896340736), logarithm(a)))
        OF(LOG10, scaled<double2>(only(0.43429448190325182765), logarithm(a)))
        OF(SIN, turned_back(hyperbolic_sine({-a.im, a.re})))
        OF(COS, hyperbolic_cosine({-a.im, a.re}))
        OF(TAN, turned_back(hyperbolic_tangent({-a.im, a.re})))
        OF(ASIN, arc_sine(a))
        OF(ACOS, arc_cosine(a))
        OF(ATAN, turned_back(arc_hyperbolic_tangent({-a.im, a.re})))
        OF(SINH, hyperbolic_sine(a))
        OF(COSH, hyperbolic_cosine(a))
        OF(TANH, hyperbolic_tangent(a))
        OF(ASINH, turned_back(arc_sine({-a.im, a.re})))
        OF(SIGN, direction(a))
        OF(WHERE, is_set(a) ? b : c)
        OF(ISNAN, only(is_nan(a.re) || is_nan(a.im)))
        OF(ISINF, only(is_infinite(a.re) || is_infinite(a.im)))
        OF(ISFINITE, only(is_finite(a.re) && is_finite(a.im)))
        OF(EQUAL, only(a.re == b.re && a.im == b.im))
        OF(NOT_EQUAL, only(a.re != b.re || a.im != b.im))
        OF(LOGICAL_AND, only(is_set(a) && is_set(b)))
        OF(LOGICAL_OR, only(is_set(a) || is_set(b)))
        OF(LOGICAL_XOR, only(is_set(a) != is_set(b)))
        OF(LOGICAL_NOT, only(!is_set(a)))
    }
    return {GX_NAN, GX_NAN};
}
#undef OF

/* Of elements of type T. */
template <class T>
__device__ __forceinline__ number mapped(int kind, number alpha, number beta, number a, number b,
                                         number c)
{
    if (facts<T>::is_complex) {
        return of_pair(kind, alpha, beta, a, b, c);
    }
    return {of_real(kind, alpha.re, beta.re, a.re, b.re, c.re), 0};
}

#endif
