# gx: one Makefile, no configure.  `make help` lists the targets.
#
# The first thing any target does is to look at what it needs (.ci/deps): packages that are missing are
# installed where apt and root are at hand, and named with the apt-get line where they are not.
#
# Objects:  $(BUILD)/ext core kernels/*.o   the loadable extension gx.so
#           $(BUILD)/static/...             the files that talk to SQLite, again with -DSQLITE_CORE: libgx.a
# `make check` and `make fuzz` run this same file with another BUILD and sanitizer flags.

.DEFAULT_GOAL := all
ifeq ($(origin CC),default)
CC      := gcc
endif
BUILD   ?= build
COMMA   := ,
SO      ?= gx.so
PYTHON  ?= /usr/bin/python3
PREFIX  ?= /usr/local
CFLAGS  ?= -O2 -g
SECONDS ?= 300
VERSION := $(shell sed -n 's/.*GX_VERSION "\(.*\)"/\1/p' ext/gx.h)

# OPENBLAS=static (default): a private copy inside gx.so, symbols hidden.  OPENBLAS=shared: the system's
# libraries, for distributions.  docs/decisions/001-static-openblas.md says why.
OPENBLAS ?= static

# ---- what the goals need -------------------------------------------------------------------------

NO_NEED := help clean format uninstall sdist dist
GOALS   := $(or $(MAKECMDGOALS),all)
ifeq ($(MAKELEVEL),0)
ifneq ($(filter-out $(NO_NEED),$(GOALS)),)
ifneq ($(shell PYTHON="$(PYTHON)" CC="$(CC)" OPENBLAS=$(OPENBLAS) .ci/deps $(GOALS) >&2 && echo ready),ready)
$(error dependencies are missing: see above)
endif
endif
endif

# As many jobs as processors, unless -j says otherwise.
ifeq ($(filter -j%,$(MAKEFLAGS))$(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif

# ---- compiling -----------------------------------------------------------------------------------

# Another machine's code: CROSS=aarch64-linux-gnu- and SYSROOT, the folder of its packages (ext/arm64.sh).
SYSROOT ?=
ifneq ($(CROSS),)
CC      := $(CROSS)gcc$(if $(SYSROOT), --sysroot=$(SYSROOT))
AR      := $(CROSS)ar
endif

ARCH   := $(shell $(CC) -print-multiarch 2>/dev/null)
ROOTS  := $(SYSROOT)/usr/lib
LIBDIR := $(firstword $(wildcard $(ROOTS)/$(ARCH)/openblas-pthread $(ROOTS)/$(ARCH) $(ROOTS)64 $(ROOTS)))
BLAS_A := $(firstword $(wildcard $(ROOTS)/$(ARCH)/openblas-pthread/libopenblas.a \
            $(ROOTS)/$(ARCH)/libopenblas.a $(ROOTS)64/libopenblas.a $(ROOTS)/libopenblas.a))
BLAS_I := $(firstword $(wildcard $(SYSROOT)/usr/include/$(ARCH)/openblas-pthread $(SYSROOT)/usr/include/openblas))

# Assertions are on in the tests' builds (make test, check, coverage) and off in what is installed.
NDEBUG  ?= -DNDEBUG

# V=1 shows the commands.
Q   := $(if $(V),,@)
say  = $(if $(V),,@echo "  $(1)  $(2)")

# What is computed with and what is stored are two enums (core/base/dtype.h): no crossing but by its functions.
WARN  := -Wall -Wextra -Wshadow -Wpedantic -Wconversion -Wno-sign-conversion -Werror=enum-conversion -Werror=enum-compare
FLAGS  = -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden $(WARN) $(BLAS_I:%=-I%) $(NDEBUG) $(CFLAGS) \
         $(SANITIZE)

BLAS_shared := -llapacke -L$(LIBDIR) -lopenblas
# Its getenv() is gx_cpu_getenv() of kernels/cpu_core.c, which tells it what the processor can do.
BLAS_static  = -Wl,--wrap=getenv,--defsym=__wrap_getenv=gx_cpu_getenv -Wl,--whole-archive $(SPARED) -Wl,--no-whole-archive -l:liblapacke.a $(BLAS_A)
OTHER_LIBS  := -lcjson -lpthread -ldl -lm

# Debian has cJSON as a shared library only.  A copy lies beside gx.so, which looks for it there first, so that
# the two can be carried to a machine that has none (decision 001).  A distribution's build takes the system's.
CJSON_SO    := $(if $(filter static,$(OPENBLAS)),$(patsubst ./%,%,$(dir $(SO))libcjson.so.1))
CJSON_LINK  := $(if $(CJSON_SO),-Wl$(COMMA)-rpath$(COMMA)'$$ORIGIN')

ifneq ($(CJSON_SO),)
$(CJSON_SO): $(BUILD)/flags
	@cp -L $$($(CC) -print-file-name=libcjson.so.1) $@ && chmod 644 $@ && touch $@
endif
# Nothing may be left undefined (sanitizers bring their own at load time).
DEFS         = $(if $(SANITIZE),,-Wl,-z,defs -Wl,--as-needed)
LIBS         = $(BLAS_$(OPENBLAS)) $(OTHER_LIBS)

# What is to load anywhere binds to the versions that glibc 2.28 had (decision 024); not a distribution's build,
# nor one with sanitizers.
OLD_GLIBC   := $(if $(SANITIZE)$(filter shared,$(OPENBLAS)),,$(BUILD)/old_glibc)
OLD_GLIBC_C := core/base/old_glibc.c
OLD_GLIBC_O := $(if $(OLD_GLIBC),$(OLD_GLIBC_C:%.c=$(BUILD)/%.o))
OLD_NEEDS   := $(if $(OLD_GLIBC),$(OLD_GLIBC)/made $(OLD_GLIBC_O))
OLD_LINK    := $(if $(OLD_GLIBC),-L$(OLD_GLIBC) -Wl$(COMMA)--push-state$(COMMA)--no-as-needed -lpthread -ldl \
                 -Wl$(COMMA)--pop-state)

$(BUILD)/old_glibc/made: ext/old_glibc.sh
	@CC="$(CC)" ext/old_glibc.sh $(@D) && touch $@

# OpenBLAS's kernels for small products that call malloc(), made to call core/base/mem_spare.c.
SPARED   = $(BUILD)/openblas_small.a

$(SPARED): $(BLAS_A)
	@rm -rf $@ $(BUILD)/openblas_small && mkdir -p $(BUILD)/openblas_small
	@cd $(BUILD)/openblas_small && $(AR) x $< $$($(AR) t $< | grep gemm_small_kernel) && mkdir spared && \
	    for f in $$($(CROSS)nm -A *.o | sed -n 's/^\(.*\.o\):.* U malloc$$/\1/p'); do $(CROSS)objcopy \
	    --redefine-sym malloc=gx_spare_alloc --redefine-sym free=gx_spare_free $$f spared/$$f; done
	@$(AR) rcs $@ $(BUILD)/openblas_small/spared/*.o 2>/dev/null || $(AR) rcs $@
	@rm -rf $(BUILD)/openblas_small

# Of gx.so alone: its private OpenBLAS gets threads and buffers, and calls some routines, through these.
PRIVATE_C := kernels/cpu_leave.c kernels/cpu_threads.c
PRIVATE := $(if $(filter static,$(OPENBLAS)),$(PRIVATE_C:%.c=$(BUILD)/%.o))
WRAPPED := mmap pthread_create $(shell sed -n 's/^WRAP([0-9]*, \(.*\))$$/\1/p' kernels/cpu_leave.c)

SOURCES := $(filter-out kernels/cuda% $(PRIVATE_C) $(OLD_GLIBC_C),$(wildcard ext/*.c core/*.c core/*/*.c kernels/*.c))
# The parser, made of grammar.y by SQLite's parser generator.  A source distribution has it made.
GRAMMAR := $(if $(wildcard core/program/grammar.c),,$(BUILD)/core/program/grammar.c)
SQLITE  := $(wildcard ext/*.c core/store/*.c)
SHARED  := $(SOURCES:%.c=$(BUILD)/%.o) $(GRAMMAR:%.c=%.o)
STATIC  := $(SQLITE:%.c=$(BUILD)/static/%.o) $(filter-out $(SQLITE:%.c=$(BUILD)/%.o),$(SHARED))

all: $(SO) libgx cuda

$(SO): $(SHARED) $(PRIVATE) $(if $(PRIVATE),$(SPARED)) $(BUILD)/flags $(OLD_NEEDS) | $(CJSON_SO)
	$(call say,link,$@)
	$(Q)$(CC) -shared $(SANITIZE) $(DEFS) $(LDFLAGS) -o $@ $(SHARED) $(PRIVATE) $(if $(PRIVATE),$(WRAPPED:%=-Wl,--wrap=%)) -Wl,--exclude-libs,ALL $(CJSON_LINK) $(OLD_GLIBC_O) $(OLD_LINK) $(LIBS)

libgx: $(BUILD)/libgx.a $(BUILD)/gx.pc

$(BUILD)/libgx.a: $(STATIC)
	@rm -f $@
	$(call say,ar  ,$@)
	$(Q)$(AR) rcs $@ $^

# Kernels are loops: vectorised, with the rounding of the source (no fused multiply-add), sqrt inline.
$(BUILD)/kernels/%.o: private FLAGS += -O3 -ffp-contract=off -fno-math-errno

# gcc 13 leaves some of them out where it guesses that chains of them are slow: bits would depend on the shape.
EVERY_FMA := $(if $(findstring clang,$(CC)),,--param=avoid-fma-max-bits=0)
$(BUILD)/kernels/cpu_pair.o $(BUILD)/kernels/cpu_packed.o $(BUILD)/kernels/cpu_apart.o $(BUILD)/kernels/cpu_sparse.o $(BUILD)/kernels/cpu_elementary.o: private FLAGS += -ffp-contract=fast $(EVERY_FMA)

# The loops that every element passes which is converted or centred.
$(BUILD)/core/base/convert.o $(BUILD)/core/base/dtype.o $(BUILD)/core/base/csr.o $(BUILD)/core/mat/mat.o \
    $(BUILD)/core/exact/eliminate.o $(BUILD)/core/base/circle.o $(BUILD)/core/exact/lattice.o \
    $(BUILD)/core/exact/small.o $(BUILD)/core/alg/knn_filter.o $(BUILD)/core/alg/knn_codes.o $(BUILD)/core/alg/ivf.o \
    $(BUILD)/core/alg/alg_quantize.o $(BUILD)/core/mat/quantized.o $(BUILD)/core/program/lower_vector.o \
    $(BUILD)/core/grid/cells.o $(BUILD)/core/grid/components.o $(BUILD)/core/grid/kernels.o $(BUILD)/core/grid/masks.o \
    $(BUILD)/core/alg/knn_bits.o $(BUILD)/core/alg/alg_sparse.o $(BUILD)/core/stat/small_triangle.o $(BUILD)/core/stat/lm_pass.o $(BUILD)/core/fft/fft_lines.o $(BUILD)/core/fft/real.o: private FLAGS += -O3

# Vectors are never arguments of functions that are called.
$(BUILD)/core/exact/lattice.o: private FLAGS += -Wno-psabi
FFT_LANES := $(patsubst %.c,$(BUILD)/%.o,$(wildcard core/fft/lanes_*.c))
$(FFT_LANES): private FLAGS += -O3 -Wno-psabi -ffp-contract=fast $(EVERY_FMA)

# Not ours: the warnings in what lemon made are its authors'.
$(BUILD)/core/program/grammar.o: private FLAGS += -w -Icore/program

ifneq ($(GRAMMAR),)
$(BUILD)/core/program/grammar.c: core/program/grammar.y
	@mkdir -p $(@D)
	$(call say,make,$@)
	$(Q)lemon -l -q -d$(@D) $<

$(GRAMMAR:%.c=%.o): $(GRAMMAR) $(BUILD)/flags
	$(call say,cc  ,$<)
	$(Q)$(CC) $(FLAGS) -MMD -MP -c $< -o $@

$(BUILD)/core/program/scan.o: $(GRAMMAR)
endif

# scan.c takes the numbers of the tokens from the parser's header.
$(BUILD)/core/program/scan.o: private FLAGS += -I$(if $(GRAMMAR),$(BUILD)/core/program,core/program)

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,cc  ,$<)
	$(Q)$(CC) $(FLAGS) -MMD -MP -c $< -o $@

# The tests' build takes the product's kernels, which have no assertions (make tidy looks) and take longest.
ifneq ($(KERNELS),)
$(BUILD)/kernels/%.o: $(KERNELS)/kernels/%.o
	@mkdir -p $(@D)
	@cp $< $@
endif

$(BUILD)/static/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,cc  ,$<)
	$(Q)$(CC) $(FLAGS) -DSQLITE_CORE -MMD -MP -c $< -o $@

# Changes when the commands do, so that a build with other flags starts afresh.
$(BUILD)/flags: always
	@mkdir -p $(@D)
	@echo '$(CC) $(FLAGS) $(LDFLAGS) $(LIBS)' | cmp -s - $@ || echo '$(CC) $(FLAGS) $(LDFLAGS) $(LIBS)' >$@

# The schema as a C string, without its head comment.
$(BUILD)/schema.h: sql/schema.sql
	@mkdir -p $(@D)
	@{ echo 'static const char schema_sql[] ='; sed -e '/^--/d' -e 's/.*/"&\\n"/' $<; echo ';'; } >$@

$(BUILD)/core/store/store_txn.o $(BUILD)/static/core/store/store_txn.o: $(BUILD)/schema.h
$(BUILD)/core/store/store_txn.o $(BUILD)/static/core/store/store_txn.o: private FLAGS += -I$(BUILD)

# The reference and the recipes as a C string, its pages in the order of docs/README.md: what gx_help says.
HELP := $(shell sed -n 's,.*(\(reference/[a-z-]*\.md\|recipes\.md\)).*,docs/\1,p' docs/README.md)

$(BUILD)/help_pages.h: docs/README.md $(HELP)
	@mkdir -p $(@D)
	@{ echo 'static const char help_pages[] ='; for f in $(HELP); do printf '"\\f%s\\n"\n' $${f#docs/}; \
	sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' $$f; done; echo ';'; } >$@

$(BUILD)/ext/help.o $(BUILD)/static/ext/help.o: $(BUILD)/help_pages.h
$(BUILD)/ext/help.o $(BUILD)/static/ext/help.o: private FLAGS += -I$(BUILD)

$(BUILD)/gx.pc: ext/gx.pc.in Makefile ext/gx.h
	@mkdir -p $(@D)
	@sed -e 's,@PREFIX@,$(PREFIX),' -e 's,@VERSION@,$(VERSION),' $< >$@

-include $(SHARED:.o=.d) $(PRIVATE:.o=.d) $(STATIC:.o=.d)

# ---- the CUDA backend ----------------------------------------------------------------------------

# gx_cuda.so, beside gx.so, where nvcc is found: host code in C, which needs no header and no library of
# NVIDIA's, and the kernels, one image of bytes for each .cu.  gx.so is linked before any of them is compiled.
#
# In a working tree the kernels are compiled for the GPUs of this machine, or, where it has none, for the oldest
# generation and for Hopper, which has code of its own; packages, and trees without git, have all generations.
# ARCHS="80 90" picks others; PTX=75 makes PTX of that capability and no machine code, which a newer GPU compiles
# when it opens: what an older one would run, for tests.
NVCC    ?= $(firstword $(wildcard $(CUDA_HOME:%=%/bin/nvcc) $(CUDA_PATH:%=%/bin/nvcc)) \
             $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
ALL_ARCHS := 75 80 86 89 90 100 120
HERE_ARCHS = $(or $(sort $(subst .,,$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null))),75 90)
ifneq ($(NVCC),)
ARCHS   ?= $(if $(wildcard .git),$(if $(filter wheel deb release install,$(GOALS)),$(ALL_ARCHS),$(HERE_ARCHS)),$(ALL_ARCHS))
ARCHS   := $(ARCHS)
endif
CUDA_SO := $(patsubst ./%,%,$(dir $(SO))gx_cuda.so)
CUDA_C  := $(wildcard kernels/cuda*.c) $(addprefix core/base/,backend.c circle.c constraints.c err.c events.c fused.c map.c mem.c stats.c types.c)
CUDA_CU := $(basename $(notdir $(wildcard kernels/cuda*.cu)))

# What this nvcc knows of ARCHS, and PTX of the oldest, which newer devices compile for themselves.
ifneq ($(NVCC),)
CUDA_HAVE := $(patsubst sm_%,%,$(shell $(NVCC) --list-gpu-code 2>/dev/null))
CUDA_FOR  := $(filter $(ARCHS),$(CUDA_HAVE))
CUDA_LAST := $(firstword $(CUDA_FOR))
CUDA_CODE := $(if $(PTX),-gencode arch=compute_$(PTX)$(COMMA)code=compute_$(PTX),$(if $(CUDA_FOR),$(foreach a,$(CUDA_FOR),-gencode arch=compute_$a$(COMMA)code=sm_$a) \
               -gencode arch=compute_$(CUDA_LAST)$(COMMA)code=compute_$(CUDA_LAST),-arch=native))
CUDA_IS   := $(shell $(NVCC) --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
endif
NVFLAGS = -std=c++17 -O3 -fmad=false -Xfatbin=-compress-all $(CUDA_CODE)

cuda: $(if $(NVCC),$(CUDA_SO),no-cuda)

no-cuda:
	@echo "  skip  gx_cuda.so: no nvcc (the compiler of the CUDA toolkit) here; gx.so works without it"

$(BUILD)/kernels/%.fatbin: kernels/%.cu kernels/cuda_element.cuh kernels/functions.h kernels/cuda_functions.cuh kernels/cuda_kernels.h \
                           kernels/cuda_fused.h kernels/cuda_fused.cuh kernels/cuda_fold.cuh kernels/foretell.h \
                           kernels/cuda_near.cuh kernels/cuda_narrow_image.cuh kernels/cuda_m31.cuh kernels/grid_team.h kernels/grid_ops.h \
                           core/base/backend.h core/base/dtype.h core/base/dtype.def core/base/map.h core/base/fused.h core/base/grids.h core/base/nearest.h core/base/random_tables.h \
                           $(BUILD)/nvflags | $(SO)
	@mkdir -p $(@D)
	$(call say,nvcc,$<)
	$(Q)$(NVCC) $(NVFLAGS) -fatbin -o $@ $<

# Instructions of Hopper alone are in code for sm_90a, which runs there and nowhere else.
$(BUILD)/kernels/cuda_narrow_split.fatbin: private CUDA_CODE := \
    $(subst compute_90$(COMMA)code=sm_90,compute_90a$(COMMA)code=sm_90a,$(CUDA_CODE))

$(BUILD)/nvflags: always
	@mkdir -p $(@D)
	@echo '$(NVCC) $(NVFLAGS)' | cmp -s - $@ || echo '$(NVCC) $(NVFLAGS)' >$@

# The images as read-only data, and the array of them.
$(BUILD)/cuda_images.c: $(CUDA_CU:%=$(BUILD)/kernels/%.fatbin) Makefile
	@{ for f in $(CUDA_CU); do printf 'extern const char %s[];\n__asm__(".pushsection .rodata\\n"\n        \
	".balign 64\\n%s: .incbin \\"%s\\"\\n.popsection");\n' $$f $$f $(BUILD)/kernels/$$f.fatbin; done; \
	echo "extern const void *const gx_cuda_images[];"; echo "extern const char gx_cuda_image_version[];"; \
	echo "extern const char *const gx_cuda_image_names[];"; \
	echo "const void *const gx_cuda_images[] = {$(CUDA_CU:%=%,) 0};"; \
	echo 'const char *const gx_cuda_image_names[] = {$(CUDA_CU:%="%",) 0};'; \
	echo '#include "$(CURDIR)/kernels/cuda.h"'; \
	echo '_Static_assert($(words $(CUDA_CU)) <= GX_CUDA_IMAGES_MAX, "kernels/cuda.h says how many images");'; \
	echo "const char gx_cuda_image_version[] = \"$(CUDA_IS)\";"; } >$@

# The texts that NVRTC compiles while gx runs.
CUDA_TEXTS := struct:cuda_fused.h table:functions.h functions:cuda_functions.cuh folds:cuda_fold.cuh parts:cuda_fused.cuh

$(BUILD)/cuda_texts.s: kernels/cuda_fused.h kernels/functions.h kernels/cuda_functions.cuh kernels/cuda_fold.cuh kernels/cuda_fused.cuh Makefile
	@mkdir -p $(@D)
	@{ echo '.section .rodata'; for t in $(CUDA_TEXTS); do name=gx_cuda_text_$${t%:*}; echo ".globl $$name"; \
	echo ".hidden $$name"; echo "$$name: .incbin \"kernels/$${t#*:}\""; echo '.byte 0'; done; \
	echo '.section .note.GNU-stack,"",%progbits'; } >$@

$(BUILD)/cuda_texts.o: %.o: %.s
	$(Q)$(CC) -c $< -o $@

# No kernels: the host code for tests with a stand-in for CUDA's libraries, which needs no nvcc.
$(BUILD)/cuda_no_images.c: Makefile
	@mkdir -p $(@D)
	@{ echo "extern const void *const gx_cuda_images[];"; echo "extern const char gx_cuda_image_version[];"; \
	echo "extern const char *const gx_cuda_image_names[];"; \
	echo "const void *const gx_cuda_images[] = {\"no device code\", 0};"; \
	echo "const char *const gx_cuda_image_names[] = {\"\", 0};"; \
	echo "const char gx_cuda_image_version[] = \"none\";"; } >$@

$(BUILD)/cuda_images.o $(BUILD)/cuda_no_images.o: %.o: %.c $(BUILD)/flags
	$(Q)$(CC) $(FLAGS) -c $< -o $@

CUDA_LINK = $(CC) -shared $(SANITIZE) $(DEFS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(OLD_LINK) -lpthread -ldl -lm

$(CUDA_SO): $(CUDA_C:%.c=$(BUILD)/%.o) $(BUILD)/cuda_texts.o $(BUILD)/cuda_images.o $(OLD_NEEDS)
	$(call say,link,$@)
	$(Q)$(CUDA_LINK)

$(BUILD)/mock/gx_cuda.so: $(CUDA_C:%.c=$(BUILD)/%.o) $(BUILD)/cuda_texts.o $(BUILD)/cuda_no_images.o $(OLD_NEEDS)
	@mkdir -p $(@D)
	$(call say,link,$@)
	$(Q)$(CUDA_LINK)

-include $(patsubst %.c,$(BUILD)/%.d,$(wildcard kernels/cuda*.c))

# ---- test programs -------------------------------------------------------------------------------

# They link the objects of libgx.a, and the shared OpenBLAS, which keeps them small.
TEST_LIBS = -lsqlite3 $(BLAS_shared) $(OTHER_LIBS)
TESTING   = $(FLAGS) -Icore -Iext -MMD -MP
UNITS    := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/*/test_*.c))
FAULT    := $(BUILD)/tests/fault/fault
FUZZERS  := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
EMBED    := $(BUILD)/tests/embed/embed

# What kernels are compared with: the reference backend, with plain loops for spectra too.
ORACLE := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/oracle/*.c))

$(UNITS): $(BUILD)/%: %.c $(ORACLE) $(STATIC)
	@mkdir -p $(@D)
	$(call say,link,$@)
	$(Q)$(CC) $(TESTING) -o $@ $< $(ORACLE) $(MOCKED) $(STATIC) -lcmocka $(TEST_LIBS)

# Programs that stand a device in, without a library to load.
MOCK_O  := $(patsubst %,$(BUILD)/tests/mockcuda/%.o,mock_machine mock_kernels mock_backend)
ON_MOCK := $(patsubst %.c,$(BUILD)/%,$(shell grep -lE 'devicekit|mock_machine' tests/unit/*/test_*.c))

$(ON_MOCK): $(MOCK_O)
$(ON_MOCK): private MOCKED = $(MOCK_O)

# gx_cuda.so is looked for beside the program; it finds its libraries in $(BUILD)/mock.
$(filter $(BUILD)/tests/unit/device/%,$(UNITS)): | $(BUILD)/tests/unit/device/gx_cuda.so $(BUILD)/mock/lib/libcudart.so.13

$(BUILD)/tests/unit/device/gx_cuda.so: $(BUILD)/mock/gx_cuda.so
	@mkdir -p $(@D)
	@ln -sf ../../../mock/gx_cuda.so $@

# With the private OpenBLAS: the application's has kernels that do not survive the lack of memory.
$(FAULT): $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/fault/*.c)) $(STATIC) | $(if $(PRIVATE),$(SPARED))
	$(call say,link,$@)
	$(Q)$(CC) $(SANITIZE) -Wl,-S -o $@ $^ $(BLAS_$(OPENBLAS)) -lsqlite3 $(OTHER_LIBS)

# With libFuzzer (make fuzz sets FUZZING), else with driver.c, which replays the corpus.
FUZZMAIN := $(if $(FUZZING),,$(BUILD)/tests/fuzz/driver.o)

$(FUZZERS): %: %.o $(BUILD)/tests/fuzz/fuzzkit.o $(FUZZMAIN) $(STATIC)
	$(call say,link,$@)
	$(Q)$(CC) $(SANITIZE) $(FUZZING) -o $@ $^ $(TEST_LIBS)

$(EMBED): tests/embed/embed.c $(BUILD)/libgx.a | $(if $(PRIVATE),$(SPARED))
	@mkdir -p $(@D)
	$(call say,link,$@)
	$(Q)$(CC) $(FLAGS) -Iext -o $@ $< $(BUILD)/libgx.a -lsqlite3 $(LIBS) $(BUILD)/libgx.a

# A stand-in for gx_cuda.so, whose device is threads and memory of the host.
MOCK := $(BUILD)/tests/mockcuda/gx_cuda.so

$(MOCK): $(MOCK_O) $(ORACLE) $(BUILD)/libgx.a
	$(call say,link,$@)
	$(Q)$(CC) -shared $(SANITIZE) -o $@ $^ -Wl,--exclude-libs,ALL $(OTHER_LIBS)

# Loops as in kernels/.  gcc 12 for aarch64 ends with an internal error where it vectorises oracle_geev.c.
$(ORACLE): private FLAGS += -O3 -ffp-contract=off -fno-math-errno $(if $(CROSS),-fno-tree-vectorize)

-include $(ORACLE:.o=.d) $(UNITS:=.d) $(FUZZERS:=.d) $(wildcard $(BUILD)/tests/mockcuda/*.d) $(wildcard $(BUILD)/tests/fault/*.d)

# ---- running them --------------------------------------------------------------------------------

RUN_PYTHON = $(or $(wildcard .venv/bin/python),$(PYTHON))
RUN        = BUILD=$(BUILD) GX_SO=$(abspath $(SO)) PYTHON=$(RUN_PYTHON) CC="$(CC)" UNITS="$(UNITS)" \
             FUZZERS="$(FUZZERS)" GX_MOCK=$(abspath $(MOCK)) GX_STAND_INS=$(abspath $(BUILD)/mock)
STANDIN   := $(BUILD)/mock/lib/libcudart.so.13 $(BUILD)/mock/gx_cuda.so $(BUILD)/gpu/gpu_tests
PROGRAMS  := $(SO) libgx $(UNITS) $(FAULT) $(FUZZERS) $(EMBED) $(MOCK) $(STANDIN)

programs: $(PROGRAMS)

# Everything once more with assertions, and the tests on that; the step "exports" looks at what `make` made.
test: all
	@$(MAKE) --no-print-directory BUILD=build/test SO=build/test/gx.so NDEBUG= KERNELS=$(BUILD) GX_PRODUCT=$(abspath $(SO)) \
	    GX_PRODUCT_A=$(abspath $(BUILD)/libgx.a) run-tests

run-tests: $(PROGRAMS)
	@GX_PRODUCT=$(or $(GX_PRODUCT),$(abspath $(SO))) GX_PRODUCT_A=$(GX_PRODUCT_A) $(RUN) tests/run.sh $(STEPS)

# Each allocation, file access and step fails once, each call of CUDA; kill -9.
fault: $(SO) $(FAULT) $(STANDIN)
	printf '%s\n' delete wal | xargs -P 2 -I{} $(FAULT) --points $(or $(POINTS),40) --journal {}
	GX_SO=$(abspath $(SO)) $(RUN_PYTHON) tests/fault/cuda.py --stand-ins $(BUILD)/mock --step $(if $(filter 0,$(POINTS)),1,7)
	GX_SO=$(abspath $(SO)) $(RUN_PYTHON) tests/fault/kill.py --times 50

# Random work of four processes on one database with volumes, some of them killed.
soak: $(SO)
	GX_SO=$(abspath $(SO)) $(RUN_PYTHON) tests/soak.py --seconds $(SECONDS) --kills $(shell expr $(SECONDS) / 60)

ASAN := NDEBUG= CFLAGS="-O1 -g -fno-omit-frame-pointer" SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
TSAN := NDEBUG= CFLAGS="-O1 -g" SANITIZE=-fsanitize=thread

check: $(SO) $(STANDIN)
	@$(MAKE) --no-print-directory BUILD=build/asan SO=build/asan/gx.so $(ASAN) programs
	@$(MAKE) --no-print-directory BUILD=build/tsan SO=build/tsan/gx.so $(TSAN) units
	@$(RUN) tests/check.sh $(STEPS)

# What the tests reach.  ROOM=core/exec lists what they do not, there.
# Inline functions stay functions: within each caller their conditions would count again.
COVER := NDEBUG= CFLAGS="-Og -fno-inline -g -Wno-maybe-uninitialized" SANITIZE="--coverage -fprofile-update=atomic"

coverage: deps
	@.venv/bin/python -c 'import gcovr' 2>/dev/null || .venv/bin/python -m pip install -q --disable-pip-version-check gcovr
	@$(MAKE) --no-print-directory BUILD=build/coverage SO=build/coverage/gx.so $(COVER) programs
	@find build/coverage -name '*.gcda' -delete
	@-$(MAKE) --no-print-directory BUILD=build/coverage SO=build/coverage/gx.so $(COVER) run-tests STEPS="$(or $(STEPS),unit cuda embed sql fault fuzz)"
	@.venv/bin/python tests/coverage.py build/coverage
	@$(if $(ROOM),.venv/bin/python tests/coverage.py build/coverage --missing $(ROOM))

units: $(UNITS)

# Past 2 GiB and 2^31 elements; CASES="products solve" picks some.
test-large: $(SO)
	GX_SO=$(abspath $(SO)) $(RUN_PYTHON) tests/large.py $(if $(DIR),--dir $(DIR)) $(CASES)

fuzz:
	@$(MAKE) --no-print-directory BUILD=build/fuzz CC=clang NDEBUG= CFLAGS="-O1 -g -fno-omit-frame-pointer" \
	    SANITIZE="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined" \
	    FUZZING=-fsanitize=fuzzer fuzzers
	@BUILD=build/fuzz SECONDS_EACH=$(SECONDS) tests/fuzz/run.sh $(TARGETS)

fuzzers: $(FUZZERS)

# The tests of backends, on the device of gx_cuda.so, in one program with what it needs beside it:
# build/gpu can be carried to a machine that has a driver and CUDA's libraries, for tests/gpu/run.sh.
GPU_NAMES := test_kernels test_nearest test_sparse_kernel test_fused test_solve test_qr test_eigen test_device test_grid bench_device bench_core bench_sparse gpu_main
GPU_MADE  := $(GPU_NAMES:%=$(BUILD)/gpu_tests/%.o)
GPU_CC     = $(CC) $(TESTING) -Itests/unit/kernels -DGX_TEST_GPU -c $< -o $@

$(BUILD)/gpu_tests/gpu_main.o: tests/gpu/gpu_main.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(GPU_CC)

$(BUILD)/gpu_tests/%.o: tests/unit/kernels/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(GPU_CC) -Dmain=$*_main

$(BUILD)/gpu_tests/%.o: tests/gpu/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(GPU_CC) -Dmain=$*_main

$(BUILD)/gpu/gpu_tests: $(GPU_MADE) $(ORACLE) $(BUILD)/libgx.a | $(SPARED)
	@mkdir -p $(@D)
	$(call say,link,$@)
	$(Q)$(CC) $(SANITIZE) -Wl,-S -o $@ $^ -lcmocka $(BLAS_static) $(BUILD)/libgx.a -Wl,--as-needed -lsqlite3 \
	    $(OTHER_LIBS) -Wl,-rpath,'$$ORIGIN'

$(BUILD)/gpu/gx_cuda.so: $(CUDA_SO)
	@mkdir -p $(@D)
	@cp $< $@
	@cp -L $$($(CC) -print-file-name=libcmocka.so.0) $$($(CC) -print-file-name=libcjson.so.1) $(@D)

gpu: $(if $(NVCC),$(BUILD)/gpu/gx_cuda.so,no-cuda) $(BUILD)/gpu/gpu_tests

# The same tests where there is no GPU: stand-ins for NVIDIA's libraries on the CPU (tests/mockcuda).
NVIDIA := $(patsubst %,$(BUILD)/tests/mockcuda/%.o,mock_nvidia mock_launch mock_near mock_field mock_nvrtc mock_solver mock_fft)

$(BUILD)/mock/lib/libcudart.so.13: $(NVIDIA) $(BUILD)/tests/mockcuda/mock_machine.o $(BUILD)/tests/mockcuda/mock_kernels.o $(ORACLE) $(BUILD)/libgx.a
	@mkdir -p $(@D)
	$(call say,link,$@)
	$(Q)$(CC) -shared $(SANITIZE) -o $@ $^ -Wl,--exclude-libs,ALL $(TEST_LIBS)
	@for l in cublas.so.13 cusolver.so.12 cufft.so.12 nvJitLink.so.13 cublasLt.so.13 cusparse.so.12 nvrtc.so.13; do ln -sf $(@F) $(@D)/lib$$l; done

$(NVIDIA): private FLAGS += -Icore -Ikernels

test-gpu: gpu
	@tests/gpu/run.sh $(BUILD)/gpu test

bench-gpu: gpu
	@tests/gpu/run.sh $(BUILD)/gpu bench

-include $(wildcard $(BUILD)/gpu_tests/*.d)

tidy:
	@CC="$(CC)" CXX="$(or $(filter-out default,$(filter clang%,$(CXX))),g++)" tests/tidy.sh

format:
	clang-format -i $(wildcard ext/*.[ch] core/*.[ch] core/*/*.[ch] kernels/*.[ch] tests/*/*.[ch] \
	    tests/unit/*/*.[ch])

# BENCH="product scan" picks some; results go to bench/results/.
bench: $(SO) $(BUILD)/bench/peer
	$(RUN_PYTHON) bench/bench.py $(BENCH)

$(BUILD)/bench/peer: bench/peer.c $(BUILD)/kernels/cpu_core.o $(BUILD)/core/base/mem_spare.o $(BUILD)/flags | $(if $(PRIVATE),$(SPARED))
	@mkdir -p $(@D)
	$(call say,link,$@)
	$(Q)$(CC) $(FLAGS) -O3 -MMD -MP -o $@ $< $(BUILD)/kernels/cpu_core.o $(BUILD)/core/base/mem_spare.o $(BLAS_$(OPENBLAS)) -lsqlite3 $(OTHER_LIBS)

demo: $(SO) $(BUILD)/bench/peer
	@BUILD=$(BUILD) sql/demo/demo.sh

# ---- install -------------------------------------------------------------------------------------

DOCS := README.md LICENSE $(wildcard docs/*.md docs/*/*.md)
D     = $(DESTDIR)$(PREFIX)

install: all
	install -d $(D)/lib/pkgconfig $(D)/include $(D)/share/doc/gx
	install -m 755 $(SO) $(D)/lib/gx.so
	$(if $(NVCC),install -m 755 $(CUDA_SO) $(D)/lib/gx_cuda.so)
	install -m 644 $(BUILD)/libgx.a $(D)/lib/libgx.a
	install -m 644 ext/gx.h $(D)/include/gx.h
	sed -e 's,@PREFIX@,$(PREFIX),' -e 's,@VERSION@,$(VERSION),' ext/gx.pc.in >$(D)/lib/pkgconfig/gx.pc
	for f in $(wildcard $(DOCS)); do install -D -m 644 $$f $(D)/share/doc/gx/$$f; done

uninstall:
	rm -f $(D)/lib/gx.so $(D)/lib/gx_cuda.so $(D)/lib/libgx.a $(D)/include/gx.h $(D)/lib/pkgconfig/gx.pc
	rm -rf $(D)/share/doc/gx

# ---- packages ------------------------------------------------------------------------------------

PACKAGES := $(BUILD)/packages

# Python's: gx.so, gx_cuda.so where there is nvcc, and the package ext/python.  sdist: what makes such a wheel.
wheel: $(SO) cuda
	@GX_BUILT=1 $(RUN_PYTHON) ext/python/backend.py wheel $(PACKAGES)

# dist: gx-VERSION.tar.gz, which builds without git.
sdist dist:
	@$(RUN_PYTHON) ext/python/backend.py $@ $(PACKAGES)

# Debian's libsqlite3-gx, with the distribution's own libraries.
deb:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/deb SO=$(BUILD)/deb/gx.so OPENBLAS=shared PREFIX=/usr NVCC= $(BUILD)/deb/gx.so libgx
	@ext/deb.sh $(BUILD)/deb $(PACKAGES) $(VERSION)

# All of a release, with its checksums: both source distributions, wheels for x86_64 and, tested in qemu, aarch64, the
# Debian package.
release: sdist dist wheel deb
	@ext/arm64.sh $(BUILD)/arm64 $(PACKAGES)
	@cd $(PACKAGES) && sha256sum $$(ls | grep -v SHA256SUMS) >SHA256SUMS && cat SHA256SUMS

clean:
	rm -rf build gx.so gx_cuda.so libcjson.so.1

deps:
	@.ci/deps all test check fuzz

help:
	@sed -n 's/^#: //p' Makefile

#: make               gx.so and build/libgx.a
#: make demo          the main job from a CSV file to an answer, under a minute
#: make test          unit, SQL, docs, fault and fuzz-corpus tests; STEPS="unit sql" picks some
#: make check         the tests under ASan+UBSan, TSan and valgrind
#: make fault         every allocation, read, write and step failed once; POINTS=40, 0 = all
#: make test-large    past 2 GiB and 2^31 elements; 24 GiB of memory, 30 GB of disk in DIR, under an hour
#: make soak          processes at random work on one database with volumes for SECONDS=300
#: make fuzz          each fuzzer for SECONDS=300; TARGETS="value npy" picks some
#: make bench         speed beside peers; BENCH="product scan" picks some
#: make tidy          the style, as a test;  make format  applies .clang-format
#: make test-gpu      every kernel on an NVIDIA GPU against the reference;  make bench-gpu  its speed
#: make install       PREFIX=/usr/local DESTDIR=;  make uninstall
#: make wheel         Python's package, for pip;  make sdist, make dist, make deb  the other packages
#: make release       all of them, a wheel for aarch64 too, tested in qemu, and checksums: build/packages
#: make deps          install (or name) what is missing;  make clean  removes what make made
#: Variables: OPENBLAS=static|shared  CC  CFLAGS  PYTHON  NVCC  ARCHS="75 ... 120" (a working tree: this machine's)  PTX=75 (that alone)

.PHONY: all always cuda no-cuda gpu test-gpu bench-gpu libgx programs units fuzzers test run-tests check coverage fault soak test-large fuzz bench demo tidy format install uninstall wheel sdist dist deb release clean deps help
