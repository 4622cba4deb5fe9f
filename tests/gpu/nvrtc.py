#!/usr/bin/env python3
"""The compiler of another CUDA toolkit from PyPI in nvcc's place, for GPUs that this machine's nvcc has forgotten.

    pip install nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12
    make gpu NVCC=tests/gpu/nvrtc.py PTX=50 BUILD=build/ptx50 SO=build/ptx50/gx.so

CUDA 13 compiles for compute capability 7.5 and later; NVRTC 12 for 5.0 and later.  It makes PTX, which the driver of
any newer GPU compiles when gx opens the device: what an older card would run has run then.  The libraries are looked for
in $CUDA_PIP (the folder that has nvidia/cuda_nvrtc in it), or where Python finds packages.
"""
import ctypes
import glob
import os
import re
import sys
import sysconfig
import tempfile

# What the kernels' headers ask of the C library's.
HEADERS = {
    "stdint.h": "typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; typedef unsigned short uint16_t;"
                "typedef int int32_t; typedef unsigned int uint32_t; typedef long int64_t; typedef unsigned long uint64_t;"
                "typedef unsigned long uintptr_t; typedef long intptr_t;\n"
                "#define INT8_MIN (-128)\n#define INT8_MAX 127\n#define UINT8_MAX 255\n#define INT16_MIN (-32768)\n#define INT16_MAX 32767\n"
                "#define UINT16_MAX 65535\n#define INT32_MAX 2147483647\n#define INT32_MIN (-INT32_MAX - 1)\n#define UINT32_MAX 4294967295u\n"
                "#define INT64_MAX 9223372036854775807l\n#define INT64_MIN (-INT64_MAX - 1)\n#define UINT64_MAX 18446744073709551615ul\n"
                "#define UINT64_C(c) c##ul\n#define INT64_C(c) c##l\n#define SIZE_MAX UINT64_MAX\n",
    "stddef.h": "typedef unsigned long size_t; typedef long ptrdiff_t;\n#define NULL 0\n#define offsetof(t, m) __builtin_offsetof(t, m)\n",
    "stdbool.h": "",
    "limits.h": "#define INT_MAX 2147483647\n#define INT_MIN (-INT_MAX - 1)\n#define CHAR_BIT 8\n",
    "float.h": "#define DBL_MAX 1.7976931348623157e308\n#define DBL_MIN 2.2250738585072014e-308\n#define DBL_EPSILON 2.220446049250313e-16\n"
               "#define FLT_MAX 3.402823466e38f\n#define FLT_MIN 1.175494351e-38f\n#define FLT_EPSILON 1.192092896e-07f\n"
               "#define DBL_MANT_DIG 53\n#define FLT_MANT_DIG 24\n",
    "math.h": "#define INFINITY __int_as_float(0x7f800000)\n#define NAN __int_as_float(0x7fffffff)\n#define M_PI 3.14159265358979323846\n",
    "string.h": "", "stdlib.h": "", "assert.h": "#define assert(x) ((void)0)\n", "stdio.h": "", "pthread.h": "",
}


def folder():
    for place in [os.environ.get("CUDA_PIP"), sysconfig.get_paths()["purelib"]]:
        if place and os.path.isdir(os.path.join(place, "nvidia", "cuda_nvrtc")):
            return os.path.join(place, "nvidia")
    sys.exit("nvrtc.py: no nvidia-cuda-nvrtc here: pip install nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12, or set CUDA_PIP")


def checked(nvrtc, code, program=None):
    if code == 0:
        return
    if program is not None:
        size = ctypes.c_size_t()
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        sys.stderr.write(log.value.decode(errors="replace"))
    sys.exit(f"nvrtc.py: error {code}")


def in_plain_cpp(source, place):
    """A copy of the sources without C's compound literals, which NVRTC does not take; the source in it."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(source)))
    for path in glob.glob(f"{root}/kernels/*.[ch]*") + glob.glob(f"{root}/core/base/*.[hd]*"):
        copy = os.path.join(place, os.path.relpath(path, root))
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        with open(path, encoding="utf-8") as file, open(copy, "w", encoding="utf-8") as to:
            to.write(re.sub(r"\((gx_\w+)\)\{", r"\1{", file.read()))
    return os.path.join(place, "kernels", os.path.basename(source))


def compile_to_ptx(nvrtc, nvidia, source, options):
    names = [name.encode() for name in HEADERS]
    texts = [text.encode() for text in HEADERS.values()]
    program = ctypes.c_void_p()
    with open(source, encoding="utf-8") as file:
        text = file.read().encode()
    checked(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), len(names),
                                            (ctypes.c_char_p * len(texts))(*texts), (ctypes.c_char_p * len(names))(*names)))
    options = options + ["--device-as-default-execution-space", "--device-int128", f"-I{os.path.dirname(source)}", f"-I{nvidia}/cuda_runtime/include"]
    words = [word.encode() for word in options]
    checked(nvrtc, nvrtc.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words)), program)
    size = ctypes.c_size_t()
    checked(nvrtc, nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)))
    ptx = ctypes.create_string_buffer(size.value)
    checked(nvrtc, nvrtc.nvrtcGetPTX(program, ptx))
    return ptx.raw  # with the zero at its end, which a loader of PTX looks for


def main(words):
    nvidia = folder()
    nvrtc = ctypes.CDLL(sorted(glob.glob(f"{nvidia}/cuda_nvrtc/lib/libnvrtc.so.*"))[0])
    if "--version" in words:
        major, minor = ctypes.c_int(), ctypes.c_int()
        checked(nvrtc, nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        print(f"NVRTC, release {major.value}.{minor.value}")
        return
    count = ctypes.c_int()
    checked(nvrtc, nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    archs = (ctypes.c_int * count.value)()
    checked(nvrtc, nvrtc.nvrtcGetSupportedArchs(archs))
    if "--list-gpu-code" in words:
        print("\n".join(f"sm_{arch}" for arch in archs))
        return
    arch = [word for word in words if word.startswith("arch=compute_")]
    if len(arch) != 1 or "code=compute_" not in arch[0]:
        sys.exit("nvrtc.py: makes PTX of one compute capability: make PTX=50")
    options = [f"--gpu-architecture={arch[0].split(',')[0][5:]}"] + ["-" + word for word in words if word.startswith(("-std=", "-fmad="))]
    out, source = words[words.index("-o") + 1], words[-1]
    with tempfile.TemporaryDirectory() as place:
        ptx = compile_to_ptx(nvrtc, nvidia, in_plain_cpp(source, place), options)
    with open(out, "wb") as file:
        file.write(ptx)


if __name__ == "__main__":
    main(sys.argv[1:])
