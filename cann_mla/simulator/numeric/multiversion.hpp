// SIM_MULTIVERSION compiles a function for several instruction sets and lets the loader pick one, so that a portable
// wheel still converts arrays with wide vectors. Left out under the sanitizers, whose runtimes are not up yet when the
// loader resolves such functions, and on processors other than x86-64, whose baseline is wide enough.
#pragma once

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define SIM_MULTIVERSION __attribute__((target_clones("default", "avx2", "arch=skylake-avx512")))
#else
#define SIM_MULTIVERSION
#endif
