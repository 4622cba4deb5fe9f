/*
** The operations that programs are made of: one table.
**
** An elementwise function is a row of core/base/map.h; what else there is, a row here.  A row
** says how it is called, what shape comes of what (check), and how it is computed (run).
**
**   OP(ID, name, usage, least, most, results, check, run, help)
**
** SAFE in the place of OP: with operands that check lets pass it fails for want of memory alone.
** name NULL: not for programs.  least, most: arguments.  check: see shape.h; run: see values.h.
*/
#ifndef GX_OPS_H
#define GX_OPS_H

#include "../grid/grid.h"
#include "graph.h"

struct gx_exec;

enum { GX_EINSUM_MOST = 12 }; /* operands of einsum */

/* clang-format off */
#define GX_OPS(OP, SAFE)                                                                           \
    OP(NUMBER,    NULL, "", 0, 0, 1, NULL, number, "a number")                                     \
    OP(LITERAL,   NULL, "", 0, 0, 1, NULL, literal, "a matrix written out")                        \
    OP(OPERAND,   NULL, "", 0, 0, 1, NULL, NULL, "a stored matrix or an argument")                 \
    OP(PARAM,     NULL, "", 0, 0, 1, NULL, NULL, "a variable in a loop")                           \
    OP(PART,      NULL, "", 1, 1, 1, NULL, NULL, "one of several results")                         \
    OP(REPEAT,    NULL, "", 0, 0, 1, NULL, NULL, "a counted loop")                                 \
    OP(WHILE,     NULL, "", 0, 0, 1, NULL, NULL, "a conditional loop")                             \
    OP(IF,        NULL, "", 0, 0, 1, NULL, NULL, "a choice")                                       \
    SAFE(MAP,       NULL, "", 1, 3, 1, NULL, map, "an elementwise function")                       \
    SAFE(FUSED,     NULL, "", 1, 12, 1, NULL, fused, "elementwise functions in one pass")          \
    SAFE(CAST,      NULL, "", 1, 1, 1, NULL, cast, "another dtype")                                \
    SAFE(SLICE,     NULL, "", 1, 3, 1, NULL, slice, "a part of a matrix")                          \
    SAFE(ROWS,      "rows", "rows(A)", 1, 1, 1, rows, NULL, "number of rows")                      \
    SAFE(COLS,      "cols", "cols(A)", 1, 1, 1, cols, NULL, "number of columns")                   \
    SAFE(SIZE,      "size", "size(A)", 1, 1, 1, size, NULL, "number of elements")                  \
    SAFE(MATMUL,    "matmul", "A @ B", 2, 2, 1, matmul, matmul, "matrix product")                  \
    SAFE(TRANSPOSE, "transpose", "A.T", 1, 1, 1, transpose, transpose, "transpose")                \
    SAFE(ADJOINT,   "adjoint", "A.H", 1, 1, 1, transpose, transpose, "conjugate transpose")        \
    SAFE(EYE,       "eye", "eye(n, m = n)", 1, 2, 1, eye, eye, "ones on the diagonal")             \
    SAFE(ONES,      "ones", "ones(m, n)", 1, 2, 1, filled, filled, "a matrix of ones")             \
    SAFE(ZEROS,     "zeros", "zeros(m, n)", 1, 2, 1, filled, filled, "a matrix of zeros")          \
    SAFE(RANDOM,    "random", "random(m, n, seed = 0)", 2, 3, 1, random, random, "in [0, 1)")      \
    SAFE(RANDN,     "randn", "randn(m, n, seed = 0)", 2, 3, 1, random, random, "normal numbers")   \
    SAFE(LINSPACE,  "linspace", "linspace(a, b, n)", 3, 3, 1, linspace, ramp, "n from a to b")     \
    SAFE(ARANGE,    "arange", "arange(a, b, step)", 1, 3, 1, arange, ramp, "below b")              \
    SAFE(SUM,       "sum", "sum(A, axis)", 1, 2, 1, reduce, reduce, "sum")                         \
    SAFE(MEAN,      "mean", "mean(A, axis)", 1, 2, 1, reduce, reduce, "mean")                      \
    SAFE(PROD,      "prod", "prod(A, axis)", 1, 2, 1, reduce, reduce, "product of the elements")   \
    SAFE(MIN,       "min", "min(A, axis)", 1, 2, 1, reduce_order, reduce, "smallest element")      \
    SAFE(MAX,       "max", "max(A, axis)", 1, 2, 1, reduce_order, reduce, "largest element")       \
    SAFE(ANY,       "any", "any(A, axis)", 1, 2, 1, reduce_truth, reduce, "1 where one is not 0")  \
    SAFE(ALL,       "all", "all(A, axis)", 1, 2, 1, reduce_truth, reduce, "1 where none is 0")     \
    SAFE(VAR,       "var", "var(A, axis, ddof)", 1, 3, 1, reduce_real, reduce, "variance")         \
    SAFE(STD,       "std", "std(A, axis, ddof)", 1, 3, 1, reduce_real, reduce, "its square root")  \
    SAFE(ARGMIN,    "argmin", "argmin(A, axis)", 1, 2, 1, reduce_index, reduce, "its place")       \
    SAFE(ARGMAX,    "argmax", "argmax(A, axis)", 1, 2, 1, reduce_index, reduce, "its place")       \
    SAFE(MEDIAN,    "median", "median(A, axis)", 1, 2, 1, reduce_order, reduce, "median")          \
    SAFE(LOGSUMEXP, "logsumexp", "logsumexp(A, axis)", 1, 2, 1, reduce_order, reduce,              \
       "log sum exp")                                                                              \
    SAFE(QUANTILE,  "quantile", "quantile(A, q, axis)", 2, 3, 1, quantile, reduce, "quantile")     \
    OP(NORM,      "norm", "norm(A, kind = 'fro')", 1, 2, 1, norm, norm, "norm of a kind") \
    SAFE(TRACE,     "trace", "trace(A)", 1, 1, 1, trace, trace, "sum of the diagonal")             \
    SAFE(TRACE_PRODUCT, NULL, "", 2, 2, 1, NULL, trace_product, "trace of a product")              \
    SAFE(DIAG,      "diag", "diag(x)", 1, 1, 1, diag, diag, "diagonal, made or taken")             \
    SAFE(TRIU,      "triu", "triu(A, k = 0)", 1, 2, 1, same_k, arrange, "upper triangle")          \
    SAFE(TRIL,      "tril", "tril(A, k = 0)", 1, 2, 1, same_k, arrange, "lower triangle")          \
    SAFE(RESHAPE,   "reshape", "reshape(A, m, n)", 3, 3, 1, reshape, arrange, "row by row")        \
    SAFE(FLIP,      "flip", "flip(A, axis)", 1, 2, 1, flip, arrange, "backwards")                  \
    SAFE(ROLL,      "roll", "roll(A, k, axis)", 2, 3, 1, roll, arrange, "shifted by k, round")     \
    SAFE(TILE,      "tile", "tile(A, m, n)", 3, 3, 1, tile, arrange, "A m x n times")              \
    SAFE(REPEATED, "repeat", "repeat(A, n, axis)", 2, 3, 1, repeated, arrange, "each row n times") \
    SAFE(BLOCK,     "block", "block([[A, B], [C, D]])", 1, 1, 1, NULL, NULL, "put together")       \
    SAFE(EINSUM,    "einsum", "einsum('ij,jk->ik', A, B)", 2, 1 + GX_EINSUM_MOST, 1, NULL, NULL,   \
       "by letters")                                                                               \
    OP(TAKE,      "take", "take(A, index, axis = 0)", 2, 3, 1, take, take, "rows by number") \
    OP(HSTACK,    "hstack", "hstack(A, B, ...)", 1, 100, 1, stack, stack, "side by side")          \
    OP(VSTACK,    "vstack", "vstack(A, B, ...)", 1, 100, 1, stack, stack, "one above the other")   \
    OP(BLOCK_DIAG, "block_diag", "block_diag(A, B, ...)", 1, 100, 1, block_diag, NULL,             \
       "down the diagonal")                                                                        \
    OP(REQUIRE,   "require", "require(A, condition, 'why')", 3, 3, 1, require, require,            \
       "A; where the condition is 0 the program fails")                                            \
    OP(BANDS,     "bands", "bands(l, u, ab)", 3, 3, 1, bands, bands, "a matrix of its bands")      \
    OP(LOGGAMMA,  "loggamma", "loggamma(Z)", 1, 1, 1, loggamma, loggamma,                          \
       "log of gamma, complex")                                                                    \
    OP(KRON,      "kron", "kron(A, B)", 2, 2, 1, kron, kron, "Kronecker product")                  \
    OP(DISTANCE,  "distance", "distance(A, B, metric = 'l2')", 2, 3, 1, distance, distance,        \
       "distances of rows")                                                                        \
    OP(OUTER,     "outer", "outer(x, y)", 2, 2, 1, outer, kron, "all products of elements")        \
    OP(INNER,     "inner", "inner(x, y)", 2, 2, 1, inner, NULL, "sum of products")                 \
    OP(POLYVAL,   "polyval", "polyval(c, A)", 2, 2, 1, polyval, NULL, "highest power first")       \
    OP(VANDER,    "vander", "vander(x, n = size)", 1, 2, 1, vander, formed, "falling powers")      \
    OP(TOEPLITZ,  "toeplitz", "toeplitz(c, r = c)", 1, 2, 1, toeplitz, formed, "by diagonals") \
    OP(CROSS,     "cross", "cross(x, y)", 2, 2, 1, cross, formed, "cross product of 3-vectors")    \
    OP(TOPK,      "topk", "values, places = topk(x, k)", 2, 2, 2, topk, topk, "the largest k")     \
    OP(UNIQUE_COUNT, "unique_count", "unique_count(A)", 1, 1, 1, unique, topk, "how many") \
    OP(CUMSUM,    "cumsum", "cumsum(A, axis = 0)", 1, 2, 1, along, along, "running sums")          \
    OP(CUMPROD,   "cumprod", "cumprod(A, axis = 0)", 1, 2, 1, along, along, "running products")    \
    OP(DIFF,      "diff", "diff(A, axis = 0)", 1, 2, 1, diff, along, "differences of neighbours")  \
    OP(SORT,      "sort", "sort(A, axis = 0)", 1, 2, 1, along_order, along, "ascending")           \
    OP(ARGSORT,   "argsort", "argsort(A, axis = 0)", 1, 2, 1, along_order, along, "its order") \
    OP(SOFTMAX,   "softmax", "softmax(A, axis = 1)", 1, 2, 1, along_order, along, "exp / its sum") \
    OP(SOLVE,     "solve", "solve(A, B)", 2, 2, 1, solve, solve, "X with A X = B")                 \
    OP(LSTSQ,     "lstsq", "lstsq(A, B)", 2, 2, 1, lstsq, lstsq, "least squares")                  \
    OP(INVERSE,   "inverse", "inverse(A)", 1, 1, 1, square, inverse, "inverse")                    \
    OP(PINV,      "pinv", "pinv(A)", 1, 1, 1, pinv, pinv, "pseudo-inverse")                        \
    OP(SLOGDET,   "slogdet", "sign, log = slogdet(A)", 1, 1, 2, slogdet, det,                      \
       "determinant in two parts")                                                                 \
    OP(SOLVE_BANDED, "solve_banded", "solve_banded(l, u, ab, B)", 4, 4, 1, solve_banded,           \
       solve_banded, "X with A X = B, A by its bands")                                             \
    OP(DET,       "det", "det(A)", 1, 1, 1, square_number, det, "determinant")                     \
    OP(LOGDET,    "logdet", "logdet(A)", 1, 1, 1, square_real, det, "log of its modulus")          \
    OP(RANK,      "rank", "rank(A)", 1, 1, 1, real_number, rank, "rank")                           \
    OP(COND,      "cond", "cond(A)", 1, 1, 1, real_number, rank, "condition") \
    OP(CHOLESKY,  "cholesky", "cholesky(A)", 1, 1, 1, cholesky, cholesky, "L with A = L L.H")      \
    OP(LU,        "lu", "P, L, U = lu(A)", 1, 1, 3, lu, lu, "A = P L U")                           \
    OP(QR,        "qr", "Q, R = qr(A)", 1, 1, 2, qr, qr, "A = Q R")                                \
    OP(SCHUR,     "schur", "T, Z = schur(A)", 1, 1, 2, similar, decomp, "A = Z T Z.H")             \
    OP(HESSENBERG, "hessenberg", "H, Q = hessenberg(A)", 1, 1, 2, similar, decomp,                 \
       "A = Q H Q.H")                                                                              \
    OP(POLAR,     "polar", "U, P = polar(A)", 1, 1, 2, polar, decomp, "A = U P")                   \
    OP(LDL,       "ldl", "L, D, p = ldl(A)", 1, 1, 3, ldl, decomp, "A = L D L.H")                  \
    OP(QZ,        "qz", "S, T, Q, Z = qz(A, B)", 2, 2, 4, qz, decomp, "A = Q S Z.H, B = Q T Z.H")  \
    OP(BALANCE,   "balance", "B, T = balance(A)", 1, 1, 2, similar, decomp, "A = T B T^-1")        \
    OP(COSSIN,    "cossin", "U, C, V = cossin(A, p, q)", 3, 3, 3, cossin, decomp, "A = U C V")     \
    OP(SYLVESTER, "sylvester", "sylvester(A, B, Q)", 3, 3, 1, equation, equation,                  \
       "X with A X + X B = Q")                                                                     \
    OP(LYAPUNOV,  "lyapunov", "lyapunov(A, Q)", 2, 2, 1, equation, equation,                       \
       "X with A X + X A.H = Q")                                                                   \
    OP(LYAPUNOV_DISCRETE, "discrete_lyapunov", "discrete_lyapunov(A, Q)", 2, 2, 1, equation,       \
       equation, "X with X - A X A.H = Q")                                                         \
    OP(RICCATI,   "riccati", "riccati(A, B, Q, R)", 4, 4, 1, equation, equation,                   \
       "continuous algebraic Riccati equation")                                                    \
    OP(RICCATI_DISCRETE, "discrete_riccati", "discrete_riccati(A, B, Q, R)", 4, 4, 1, equation,    \
       equation, "discrete algebraic Riccati equation")                                            \
    OP(EIG,       "eig", "values, vectors = eig(A)", 1, 1, 2, eig, eig, "eigenvalues, complex")    \
    OP(EIGH,      "eigh", "values, vectors = eigh(A)", 1, 1, 2, eigh, eig, "of a Hermitian A")     \
    OP(EIGVALS,   "eigvals", "eigvals(A)", 1, 1, 1, eig, eig, "eigenvalues, complex")              \
    OP(EIGVALSH,  "eigvalsh", "eigvalsh(A)", 1, 1, 1, eigh, eig, "of a Hermitian A")               \
    OP(SVD,       "svd", "U, s, Vt = svd(A)", 1, 1, 3, svd, svd, "A = U diag(s) Vt")               \
    OP(SVDVALS,   "svdvals", "svdvals(A)", 1, 1, 1, svd, svd, "singular values")                   \
    OP(EXPM,      "expm", "expm(A)", 1, 1, 1, square, funm, "exponential of a matrix")             \
    OP(LOGM,      "logm", "logm(A)", 1, 1, 1, square, funm, "logarithm of a matrix")               \
    OP(SQRTM,     "sqrtm", "sqrtm(A)", 1, 1, 1, square, funm, "square root of a matrix")           \
    OP(SIGNM,     "signm", "signm(A)", 1, 1, 1, square, funm, "sign of a matrix")                  \
    OP(POWM,      "powm", "powm(A, p)", 2, 2, 1, powm, funm, "power of a matrix")                  \
    OP(COV,       "cov", "cov(A, ddof = 1)", 1, 2, 1, cov, cov, "covariance of the columns")       \
    OP(CORR,      "corr", "corr(A)", 1, 1, 1, cov, cov, "correlation of the columns")              \
    OP(FFT,       "fft", "fft(A, n, axis = 0, norm)", 1, 4, 1, fft, fft, "Fourier transform")      \
    OP(IFFT,      "ifft", "ifft(A, n, axis = 0, norm)", 1, 4, 1, fft, fft, "its inverse")          \
    OP(RFFT,      "rfft", "rfft(A, n, axis = 0, norm)", 1, 4, 1, fft, fft, "half, of real A")      \
    OP(IRFFT,     "irfft", "irfft(A, n, axis = 0, norm)", 1, 4, 1, fft, fft, "its inverse")        \
    OP(HFFT,      "hfft", "hfft(A, n, axis = 0, norm)", 1, 4, 1, fft, fft, "real, of half")        \
    OP(IHFFT,     "ihfft", "ihfft(A, n, axis = 0, norm)", 1, 4, 1, fft, fft, "its inverse")        \
    OP(FFT2,      "fft2", "fft2(A, m, n, norm)", 1, 4, 1, fft2, NULL, "along both axes")           \
    OP(IFFT2,     "ifft2", "ifft2(A, m, n, norm)", 1, 4, 1, fft2, NULL, "its inverse")             \
    OP(RFFT2,     "rfft2", "rfft2(A, m, n, norm)", 1, 4, 1, fft2, NULL, "half, of real A")         \
    OP(IRFFT2,    "irfft2", "irfft2(A, m, n, norm)", 1, 4, 1, fft2, NULL, "its inverse")           \
    OP(DCTN,      "dctn", "dctn(A, type = 2, m, n, norm)", 1, 5, 1, fft2, NULL, "cosines")         \
    OP(IDCTN,     "idctn", "idctn(A, type = 2, m, n, norm)", 1, 5, 1, fft2, NULL, "inverse")       \
    OP(DSTN,      "dstn", "dstn(A, type = 2, m, n, norm)", 1, 5, 1, fft2, NULL, "sines")           \
    OP(IDSTN,     "idstn", "idstn(A, type = 2, m, n, norm)", 1, 5, 1, fft2, NULL, "inverse")       \
    OP(DCT,       "dct", "dct(A, type = 2, n, axis = 0, norm)", 1, 5, 1, fft, fft, "cosines")      \
    OP(IDCT,      "idct", "idct(A, type = 2, n, axis = 0, norm)", 1, 5, 1, fft, fft, "inverse")    \
    OP(DST,       "dst", "dst(A, type = 2, n, axis = 0, norm)", 1, 5, 1, fft, fft, "sines")        \
    OP(IDST,      "idst", "idst(A, type = 2, n, axis = 0, norm)", 1, 5, 1, fft, fft, "inverse")    \
    OP(CONVOLVE,  "convolve", "convolve(A, B, mode = 'full')", 2, 3, 1, convolve, NULL,            \
        "of columns")                                                                              \
    OP(CORRELATE, "correlate", "correlate(A, B, mode = 'valid')", 2, 3, 1, convolve, NULL,         \
        "of columns")                                                                              \
    SAFE(FFTSHIFT, "fftshift", "fftshift(A, axis)", 1, 2, 1, fftshift, NULL, "0 in the middle")    \
    SAFE(IFFTSHIFT, "ifftshift", "ifftshift(A, axis)", 1, 2, 1, fftshift, NULL, "back")            \
    SAFE(FFTFREQ, "fftfreq", "fftfreq(n, d = 1)", 1, 2, 1, fftfreq, fftfreq, "frequencies")        \
    SAFE(RFFTFREQ, "rfftfreq", "rfftfreq(n, d = 1)", 1, 2, 1, fftfreq, fftfreq, "of rfft")         \
    OP(NEXT_FAST_LEN, "next_fast_len", "next_fast_len(n)", 1, 1, 1, next_fast_len, NULL,           \
        "a length that is transformed quickly")                                                    \
    GX_DEFINED_OPS(OP)                                                                             \
    OP(GRID_LABEL, "label", "label(G, neighbours = 4, by = 'nonzero', grids)", 1, 4, 1, grid,      \
        grid, "connected components")                                                              \
    GX_GRID_OPS(GX_GRID_OP, OP)

/* Those that are programs themselves: defined.c. */
#define GX_DEFINED_OPS(OP)                                                                         \
    OP(CIRCULANT, "circulant", "circulant(c)", 1, 1, 1, NULL, NULL, "by its first column")         \
    OP(HANKEL, "hankel", "hankel(c, r = 0)", 1, 2, 1, NULL, NULL, "by antidiagonals")              \
    OP(COMPANION, "companion", "companion(a)", 1, 1, 1, NULL, NULL, "of a polynomial")             \
    OP(FIEDLER, "fiedler", "fiedler(a)", 1, 1, 1, NULL, NULL, "magnitudes of differences")         \
    OP(FIEDLER_COMPANION, "fiedler_companion", "fiedler_companion(a)", 1, 1, 1, NULL, NULL,        \
       "of a polynomial, with five diagonals")                                                     \
    OP(LESLIE, "leslie", "leslie(f, s)", 2, 2, 1, NULL, NULL, "births and survival by age")        \
    OP(CONVOLUTION_MATRIX, "convolution_matrix", "convolution_matrix(a, n)", 2, 2, 1, NULL, NULL,  \
       "its product is convolve()")                                                                \
    OP(DFT, "dft", "dft(n)", 1, 1, 1, NULL, NULL, "its product is fft()")                          \
    OP(HILBERT, "hilbert", "hilbert(n)", 1, 1, 1, NULL, NULL, "1 / (i + j + 1)")                   \
    OP(HELMERT, "helmert", "helmert(n)", 1, 1, 1, NULL, NULL, "orthonormal contrasts")             \
    OP(KHATRI_RAO, "khatri_rao", "khatri_rao(A, B)", 2, 2, 1, NULL, NULL, "kron of columns")       \
    OP(COSM, "cosm", "cosm(A)", 1, 1, 1, NULL, NULL, "cosine of a matrix")                         \
    OP(SINM, "sinm", "sinm(A)", 1, 1, 1, NULL, NULL, "sine of a matrix")                           \
    OP(TANM, "tanm", "tanm(A)", 1, 1, 1, NULL, NULL, "tangent of a matrix")                        \
    OP(COSHM, "coshm", "coshm(A)", 1, 1, 1, NULL, NULL, "hyperbolic cosine of a matrix")           \
    OP(SINHM, "sinhm", "sinhm(A)", 1, 1, 1, NULL, NULL, "hyperbolic sine of a matrix")             \
    OP(TANHM, "tanhm", "tanhm(A)", 1, 1, 1, NULL, NULL, "hyperbolic tangent of a matrix")          \
    OP(EXPM_FRECHET, "expm_frechet", "expm_frechet(A, E)", 2, 2, 1, NULL, NULL,                    \
       "derivative of expm in the direction E")                                                    \
    OP(EXPM_COND, "expm_cond", "expm_cond(A)", 1, 1, 1, NULL, NULL, "condition of expm")           \
    OP(SOLVE_CIRCULANT, "solve_circulant", "solve_circulant(c, B)", 2, 2, 1, NULL, NULL,           \
       "X with circulant(c) X = B")                                                                \
    OP(SUBSPACE_ANGLES, "subspace_angles", "subspace_angles(A, B)", 2, 2, 1, NULL, NULL,           \
       "between the ranges")                                                                       \
    OP(PROCRUSTES, "procrustes", "R, scale = procrustes(A, B)", 2, 2, 2, NULL, NULL,               \
       "the rotation with A R nearest to B")                                                       \
    OP(RQ, "rq", "R, Q = rq(A)", 1, 1, 2, NULL, NULL, "A = R Q")                                   \
    OP(RSF2CSF, "rsf2csf", "T, Z = rsf2csf(T, Z)", 2, 2, 2, NULL, NULL, "complex Schur form")      \
    OP(FHT, "fht", "fht(a, dln, mu, offset = 0, bias = 0)", 3, 5, 1, NULL, NULL,                   \
       "fast Hankel transform")                                                                    \
    OP(IFHT, "ifht", "ifht(a, dln, mu, offset = 0, bias = 0)", 3, 5, 1, NULL, NULL,                \
       "its inverse")                                                                              \
    OP(FHTOFFSET, "fhtoffset", "fhtoffset(dln, mu, initial = 0, bias = 0)", 2, 4, 1, NULL, NULL,   \
       "an offset without ringing")                                                                \
    OP(CDF2RDF, "cdf2rdf", "D, X = cdf2rdf(w, V)", 2, 2, 2, NULL, NULL, "real, 2 x 2 blocks")

/* A row of core/grid's table as one of this; the grids of a batch may be one argument more. */
#define GX_GRID_OP(OP, ID, NAME, ARGUMENTS, KINDS, RESULT, KERNEL, HELP)                           \
    OP(GRID_##ID, NAME, NAME "(" ARGUMENTS ", grids)", sizeof(KINDS) - 1, sizeof(KINDS), 1, grid,  \
        grid, HELP)
/* clang-format on */

typedef enum gx_op_id {
#define GX_OP_ENUM(ID, ...) GX_OP_##ID,
    GX_OPS(GX_OP_ENUM, GX_OP_ENUM)
#undef GX_OP_ENUM
        GX_OP_COUNT
} gx_op_id;

typedef struct gx_op {
    gx_op_id id;
    const char *name, *usage, *help;
    int least, most, results;
    bool is_safe; /* it fails for want of memory alone                                */
    gx_ref (*check)(gx_graph *g, gx_node *node, const gx_ref *in, int count);
    void (*run)(struct gx_exec *x, const gx_node *node);
} gx_op;

/* The row of an operation.  Static. */
const gx_op *gx_op_row(gx_op_id id);

/* By name; NULL where there is none. */
const char *gx_op_name(const char *word); /* "inverse" of "inv"; mostly the word itself */
const gx_op *gx_op_find(const char *name);
bool gx_map_find(const char *name, gx_map_kind *kind);

/* The function or operation that may have been meant; NULL. */
const char *gx_op_near(const char *name);

#endif
