/*
** Elements as the device code has them, a number being a pair of doubles whatever the dtype, and
** what functions.h asks of a backend: quotients, magnitudes and functions of complex numbers.
**
** Nothing is contracted (-fmad=false): where map.h says so the results have the CPU's bits.
** Quotients of which the short formula would lose digits scale both numbers by powers of two and
** mend Inf and NaN as Annex G of C11 has it.
**
** nvcc compiles this text into the kernels, and NVRTC, which has no header, once more into those it
** makes while gx runs: functions.h comes before it.
*/
#ifndef GX_CUDA_FUNCTIONS_CUH
#define GX_CUDA_FUNCTIONS_CUH

typedef gx_scalar number;

__device__ inline bool is_nan(double x)
{
    return x != x;
}

// Loading and storing -----------------------------------------------------------------------------

template <class T> struct facts {
    static constexpr bool is_complex = sizeof(T) > sizeof(T::x); // double2, float2
};
template <> struct facts<double> {
    static constexpr bool is_complex = false;
};
template <> struct facts<float> : facts<double> {};

template <class T> __device__ inline number get(const T *x, long long at)
{
    T e = x[at];
    if constexpr (facts<T>::is_complex) {
        return {(double)e.x, (double)e.y};
    } else {
        return {(double)e, 0};
    }
}

template <class T> __device__ inline void put(T *x, long long at, number value)
{
    T e;
    if constexpr (facts<T>::is_complex) {
        e.x = value.re, e.y = value.im;
    } else {
        e = (T)value.re;
    }
    x[at] = e;
}

/* f(i, j) for every element of the m x n block. */
template <class F> __device__ __forceinline__ void for_each(long long m, long long n, F f)
{
    for (long long j = (long long)blockIdx.y * blockDim.y + threadIdx.y; j < n;
         j += (long long)gridDim.y * blockDim.y) {
        for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < m;
             i += (long long)gridDim.x * blockDim.x) {
            f(i, j);
        }
    }
}

// Arithmetic --------------------------------------------------------------------------------------

template <class T> __device__ inline number scaled(number s, number x)
{
    return facts<T>::is_complex ? scaled(s, x) : number{s.re * x.re, 0};
}

/* |x| where squares of the parts overflow or lose bits: by way of scaled ones. */
GX_CALLED double careful_magnitude(number x)
{
    if (isinf(x.re) || isinf(x.im)) {
        return GX_INF;
    }
    bool is_tiny = fabs(x.re) < 1 && fabs(x.im) < 1;
    double scale = is_tiny ? 0x1p600 : 0x1p-600, back = is_tiny ? 0x1p-600 : 0x1p600;
    double re = x.re * scale, im = x.im * scale;
    return sqrt(re * re + im * im) * back;
}

template <class T> __device__ inline double magnitude(number x)
{
    return facts<T>::is_complex ? magnitude(x) : fabs(x.re);
}

// Division ----------------------------------------------------------------------------------------

/* Annex G, 5.1: a quotient that came out NaN although Inf or 0 has a better answer. */
GX_CALLED number mended(number x, number y, number z)
{
    bool is_x_finite = isfinite(x.re) && isfinite(x.im);
    bool is_y_finite = isfinite(y.re) && isfinite(y.im);
    if (y.re == 0 && y.im == 0 && (!is_nan(x.re) || !is_nan(x.im))) {
        double big = copysign(GX_INF, y.re);
        return {big * x.re, big * x.im};
    }
    if ((isinf(x.re) || isinf(x.im)) && is_y_finite) {
        number u = {copysign(isinf(x.re) ? 1.0 : 0.0, x.re),
                    copysign(isinf(x.im) ? 1.0 : 0.0, x.im)};
        return {GX_INF * (u.re * y.re + u.im * y.im),
                GX_INF * (u.im * y.re - u.re * y.im)};
    }
    if ((isinf(y.re) || isinf(y.im)) && is_x_finite) {
        number u = {copysign(isinf(y.re) ? 1.0 : 0.0, y.re),
                    copysign(isinf(y.im) ? 1.0 : 0.0, y.im)};
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

GX_CALLED number divide_with_care(number x, number y)
{
    int ex = exponent_of(x), ey = exponent_of(y);
    number u = {scalbn(x.re, -ex), scalbn(x.im, -ex)}, v = {scalbn(y.re, -ey), scalbn(y.im, -ey)};
    double yy = v.re * v.re + v.im * v.im;
    number z = {scalbn((u.re * v.re + u.im * v.im) / yy, ex - ey),
                scalbn((u.im * v.re - u.re * v.im) / yy, ex - ey)};
    return is_nan(z.re) && is_nan(z.im) ? mended(x, y, z) : z;
}

// Functions of complex numbers, as Annex G has them -----------------------------------------------

GX_CALLED number z_exp(number z)
{
    constexpr double HIGH = 700; // e^HIGH and e^(x - HIGH) are finite where e^x cos y can be
    if (z.im == 0) {
        return {exp(z.re), z.im};
    }
    if (!isfinite(z.im)) {
        if (!isinf(z.re)) {
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
GX_CALLED number z_log(number z)
{
    constexpr double STEP = 600 * 0.69314718055994530942; // log 2^600
    double x = fmax(fabs(z.re), fabs(z.im)), y = fmin(fabs(z.re), fabs(z.im)), size;
    double angle = atan2(z.im, z.re);
    if (isinf(z.re) || isinf(z.im)) {
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
GX_CALLED number z_sqrt(number z)
{
    double most = fmax(fabs(z.re), fabs(z.im));
    if (isinf(z.im) || (z.re == 0 && z.im == 0)) {
        return {isinf(z.im) ? GX_INF : 0, z.im};
    }
    if (isinf(z.re)) {
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

GX_CALLED number z_sinh(number z)
{
    if (fabs(z.re) > 700) { // e^|x| / 2, of the sign of x, with the angle of conj z below 0
        number e = z_exp({fabs(z.re), z.re < 0 ? -z.im : z.im});
        return {copysign(1.0, z.re) * e.re * 0.5, copysign(1.0, z.re) * e.im * 0.5};
    }
    return {sinh(z.re) * cos(z.im), z.im == 0 ? z.im : cosh(z.re) * sin(z.im)};
}

GX_CALLED number z_cosh(number z)
{
    if (fabs(z.re) > 700) {
        number e = z_exp({fabs(z.re), z.re < 0 ? -z.im : z.im});
        return {e.re * 0.5, e.im * 0.5};
    }
    return {cosh(z.re) * cos(z.im), z.im == 0 ? z.re * z.im : sinh(z.re) * sin(z.im)};
}

/* Kahan, "Branch cuts for complex elementary functions" (1987). */
GX_CALLED number z_tanh(number z)
{
    if (fabs(z.re) > 20) {
        return {copysign(1.0, z.re), 4 * sin(z.im) * cos(z.im) * exp(-2 * fabs(z.re))};
    }
    double t = tan(z.im), s = sinh(z.re), beta = 1 + t * t, size = 1 + beta * s * s;
    return {beta * sqrt(1 + s * s) * s / size, t / size};
}

GX_CALLED number z_asin(number z)
{
    number up = z_sqrt({1 + z.re, z.im}), down = z_sqrt({1 - z.re, -z.im});
    return {atan2(z.re, up.re * down.re - up.im * down.im),
            asinh(down.re * up.im - down.im * up.re)};
}

GX_CALLED number z_acos(number z)
{
    number up = z_sqrt({1 + z.re, z.im}), down = z_sqrt({1 - z.re, -z.im});
    return {2 * atan2(down.re, up.re), asinh(up.re * down.im - up.im * down.re)};
}

GX_CALLED number arc_hyperbolic_tangent(number z)
{
    double x = fabs(z.re), y = z.re < 0 ? -z.im : z.im, rest = 1 - x, sign = copysign(1.0, z.re);
    double re = 0.25 * log1p(4 * x / (rest * rest + y * y));
    return {sign * re, sign * 0.5 * atan2(2 * y, rest * (1 + x) - y * y)};
}

/* f(iz) / i of a hyperbolic function f. */
#define TURNED(name, f)                                                                            \
    GX_CALLED number z_##name(number z)                                              \
    {                                                                                              \
        number w = f({-z.im, z.re});                                                               \
        return {w.im, -w.re};                                                                      \
    }
TURNED(sin, z_sinh)
TURNED(tan, z_tanh)
TURNED(atan, arc_hyperbolic_tangent)
TURNED(asinh, z_asin)
#undef TURNED

GX_CALLED number z_cos(number z)
{
    return z_cosh({-z.im, z.re});
}

// Incomplete gamma and beta functions -------------------------------------------------------------

/*
** The formulas of core/base/special.c in double: some 1e-13 from the truth, 1e-12 where tails are
** below 1e-200 or shapes above 1e4, 1e-10 above 1e6.  Series and fractions take at most MOST_STEPS:
** beyond LARGE, near the mean, the uniform expansion takes the place of those of P and Q.
*/
constexpr int MOST_STEPS = 20000;
constexpr double LARGE = 1e6, NEGLIGIBLE = 1e-17;

/* log Gamma(k + 1) - k log k + k. */
GX_CALLED double log_stirling(double k)
{
    if (k < 10) {
        return lgamma(k + 1) - k * log(k) + k;
    }
    double s = 1 / (k * k);
    double sum = ((((-691.0 / 360360 * s + 1.0 / 1188) * s - 1.0 / 1680) * s + 1.0 / 1260) * s -
                  1.0 / 360) * s + 1.0 / 12;
    return 0.5 * (1.83787706640934548356 + log(k)) + sum / k;
}

/* k log(k / x) - less with less = k - x. */
GX_CALLED double deviance(double k, double x, double less)
{
    double v = less / (k + x), square = v * v;
    if (square > 0.25) {
        double ratio = k / x; // of subnormal ones it is no number
        return k * (ratio > 0 && ratio < 1e308 ? log(ratio) : log(k) - log(x)) - less;
    }
    double sum = 0, term = 2 * k * v * square, rest = less * v;
    for (int i = 3; fabs(term) > NEGLIGIBLE * rest; i += 2) {
        sum += term / i;
        term *= square;
    }
    return rest + sum;
}

/* The upper tail of a large shape; the lower one where less > 0. */
GX_CALLED double large_tail(double a, double D, double less)
{
    double root = sqrt(2 * D / a), zeta = less < 0 ? root : -root; // at most 0.1
    double f[7] = {1, -1.0 / 3, 1.0 / 12, -2.0 / 135, 1.0 / 864, 1.0 / 2835, -139.0 / 777600};
    double sum = 0, half = 0.5 * erfc(sqrt(D));
    for (int k = 6; k > 0; k--) {
        f[k] += k < 5 ? (k + 1) * f[k + 2] / a : 0;
        sum = sum * zeta + f[k];
    }
    double term = exp(-D) / sqrt(2 * 3.14159265358979323846 * a) * sum / (1 + f[2] / a);
    return less < 0 ? half + term : half - term;
}

/* log Gamma(1 + a) for a >= 0, with all its digits near 0. */
GX_CALLED double log_gamma1p(double a)
{
    constexpr double by[] = {-0.57721566490153286061, 0.82246703342411321824,
                             -0.40068563438653142847, 0.27058080842778454788,
                             -0.20738555102867398527, 0.16955717699740818995,
                             -0.14404989676884611812, 0.12550966952474304242};
    double sum = 0;
    if (a > 0.01) {
        return lgamma(1 + a);
    }
    for (int i = 7; i >= 0; i--) {
        sum = (sum + by[i]) * a;
    }
    return sum;
}

GX_CALLED double digamma(double b)
{
    double shift = 0;
    for (; b < 10; b += 1) {
        shift -= 1 / b;
    }
    double s = 1 / (b * b);
    double sum = (((((691.0 / 32760 * s - 1.0 / 132) * s + 1.0 / 240) * s - 1.0 / 252) * s +
                   1.0 / 120) * s - 1.0 / 12) * s;
    return shift + log(b) - 0.5 / b + sum;
}

/* log(Gamma(a + b) / Gamma(b)) for small a: the integral of digamma by Gauss's rule of 3 points. */
GX_CALLED double log_gamma_ratio(double a, double b)
{
    constexpr double outer = 0.38729833462074168852; // sqrt(3 / 5) / 2
    if (a > 0.02 * b) {
        return log_gamma1p(a + b) - log_gamma1p(b) - log1p(a / b);
    }
    if (b < 1e-100) {
        return -log1p(a / b); // digamma of a subnormal is none
    }
    return a * ((8 * digamma(b + a / 2) + 5 * (digamma(b + a * (0.5 - outer)) +
                                               digamma(b + a * (0.5 + outer)))) / 18);
}

/* The tail of a small shape near 0: the lower one is exp(power) (1 + change). */
GX_CALLED double small_tail(double power, double change, bool is_upper)
{
    double factor = exp(power);
    return is_upper ? -expm1(power) - factor * change : factor + factor * change;
}

/* P(a, x) of a shape below 1 and a small x, or 1 - P. */
GX_CALLED double small_gamma(double a, double x, bool is_upper)
{
    double power = a * log(x) - log_gamma1p(a), term = 1, sum = 0;
    for (int n = 1; fabs(term) > NEGLIGIBLE; n++) {
        term *= -x / n;
        sum += term / (a + n);
    }
    return small_tail(power, a * sum, is_upper);
}

GX_CALLED double gamma_tail(double a, double x, bool is_upper)
{
    double less = a - x, D = deviance(a, x, less), tail, change = 0;
    bool has_upper = x >= a;
    if (a < 1 && x < 1.5) {
        return small_gamma(a, x, is_upper);
    }
    if (a > LARGE && 2 * D < 0.01 * a) {
        tail = large_tail(a, D, less);
    } else if (has_upper) {
        double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
        for (int k = 1; k < MOST_STEPS && fabs(change - 1) > 3e-16; k++) {
            double numerator = k * (a - k);
            b += 2;
            d = 1 / (numerator * d + b);
            c = b + numerator / c;
            change = c * d;
            h *= change;
        }
        tail = a * exp(-log_stirling(a) - D) * h;
    } else {
        double sum = 1, term = 1;
        for (int k = 1; k < MOST_STEPS && term > NEGLIGIBLE * sum; k++) {
            term *= x / (a + k);
            sum += term;
        }
        tail = exp(-log_stirling(a) - D) * sum;
    }
    return is_upper == has_upper ? tail : 1 - tail;
}

/* I_x(a, b) over x^a y^b / B(a, b), for x up to about the mean. */
GX_CALLED double beta_fraction(double a, double b, double x, double y, double less)
{
    double n = a + b, h = a * (less + 1) / (a + 1), c = h, d = 0, change = 0;
    for (int k = 1; k < MOST_STEPS && fabs(change - 1) > 3e-16; k++) {
        double at = a + 2 * k, w = k * (b - k) * x / (at - 1);
        double numerator = (a + k - 1) / (at - 1) * (n + k - 1) * x * w;
        double next = k + w + (a + k) * (less + 1 + k * (1 + y)) / (at + 1);
        d = 1 / (next + numerator * d);
        c = next + numerator / c;
        change = c * d;
        h *= change;
    }
    return 1 / h;
}

/* I_x(a, b) of a small a up to about the mean, or 1 - I. */
GX_CALLED double small_beta(double a, double b, double x, bool is_upper)
{
    double power = a * log(x) - log_gamma1p(a) + log_gamma_ratio(a, b), term = 1, sum = 0;
    for (int n = 1; n < MOST_STEPS && fabs(term) > NEGLIGIBLE; n++) {
        term *= (n - b) * x / n;
        sum += term / (a + n);
    }
    return small_tail(power, a * sum, is_upper);
}

/* a (1 - x) - b x, to its last digits: near the mean it is small. */
GX_CALLED double beta_slope(double a, double b, double x, double y)
{
    double rest = (1 - y) - x; // what y has lost
    double left = a * y, right = b * x;
    return (left - right) + ((fma(a, y, -left) - fma(b, x, -right)) + a * rest);
}

GX_CALLED double beta_lower(double a, double b, double x)
{
    constexpr double SMALL = 1e-3, RATHER_SMALL = 0.1; // 1 - tail loses the digits of a small one
    double y = 1 - x, less = beta_slope(a, b, x, y), n = a + b;
    bool is_lower = x * (n + 2) < a + 1;
    if (is_lower ? a < SMALL || x < 1e-100 : b < RATHER_SMALL && y * (n + 2) < b + 1) {
        return is_lower ? small_beta(a, b, x, false) : small_beta(b, a, y, true);
    }
    double D = deviance(a, n * x, less) + deviance(b, n * y, -less);
    double power = a / n * b * exp(log_stirling(n) - log_stirling(a) - log_stirling(b) - D);
    double tail = power * (is_lower ? beta_fraction(a, b, x, y, less)
                                    : beta_fraction(b, a, y, x, -less));
    return is_lower ? tail : 1 - tail;
}

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
