# gx: `make help` lists the targets.
.DEFAULT_GOAL := all
CC      ?= gcc
BUILD   ?= build
ARCH    := $(shell $(CC) -print-multiarch)
CFLAGS  ?= -O2 -g
WARN    := -Wall -Wextra -Wshadow -Wpedantic -Wconversion -Wno-sign-conversion
ALLFLAGS = -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden $(WARN) $(OPENBLAS_CFLAGS) $(CFLAGS)
OPENBLAS_CFLAGS := $(shell pkg-config --cflags openblas 2>/dev/null)
OPENBLAS_A := $(firstword $(wildcard /usr/lib/$(ARCH)/openblas-pthread/libopenblas.a))
LIBS    := -Wl,--exclude-libs,ALL -l:liblapacke.a $(OPENBLAS_A) -lcjson -lpthread -ldl -lm

SOURCES := $(wildcard ext/*.c core/*.c kernels/*.c)
OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o)

all: gx.so

gx.so: $(OBJECTS)
	$(CC) -shared -o $@ $^ $(LIBS)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALLFLAGS) -MMD -MP -c $< -o $@

-include $(OBJECTS:.o=.d)
.PHONY: all
