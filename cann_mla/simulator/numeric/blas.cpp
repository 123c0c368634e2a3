#include "numeric/blas.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <stdexcept>
#include <sys/stat.h>
#include <vector>

namespace sim::numeric {
namespace {

constexpr const char *kFile = "libscipy_openblas.so";

// cblas.h: enum CBLAS_ORDER, CBLAS_TRANSPOSE.
constexpr int kRowMajor = 101;
constexpr int kNoTranspose = 111;
constexpr int kTranspose = 112;
using Sgemm = void (*)(int order, int transA, int transB, int m, int n, int k, float alpha, const float *a, int lda,
                       const float *b, int ldb, float beta, float *c, int ldc);
using SetThreads = void (*)(int);

struct Blas {
    std::string path;
    Sgemm sgemm = nullptr;
};

// An environment variable set for the time of one load, and put back.
class ScopedVariable {
public:
    ScopedVariable(const char *name, const char *value) : name_(name) {
        if (const char *old = std::getenv(name)) {
            had_ = true;
            old_ = old;
        }
        setenv(name, value, 1);
    }
    ~ScopedVariable() {
        if (had_) setenv(name_, old_.c_str(), 1);
        else unsetenv(name_);
    }
    ScopedVariable(const ScopedVariable &) = delete;
    ScopedVariable &operator=(const ScopedVariable &) = delete;

private:
    const char *name_;
    bool had_ = false;
    std::string old_;
};

std::string ownFolder() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void *>(&blasPath), &info) == 0 || info.dli_fname == nullptr) return ".";
    const std::string path = info.dli_fname;
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::vector<std::string> candidates() {
    std::vector<std::string> paths;
    if (const char *wanted = std::getenv("CANN_MLA_SIM_BLAS"); wanted != nullptr && *wanted != '\0') {
        struct stat status{};
        const bool folder = stat(wanted, &status) == 0 && S_ISDIR(status.st_mode);
        paths.push_back(folder ? std::string(wanted) + "/" + kFile : std::string(wanted));
        return paths;  // an explicit wish is not silently replaced
    }
    for (const char *up : {"/..", "/../..", "/../../.."}) {
        paths.push_back(ownFolder() + up + "/scipy_openblas32/lib/" + kFile);
    }
#ifdef CANN_MLA_SIM_BLAS_BUILD_PATH
    paths.push_back(CANN_MLA_SIM_BLAS_BUILD_PATH);
#endif
    return paths;
}

Blas open() {
    const ScopedVariable timeout("OPENBLAS_THREAD_TIMEOUT", "4");
    const ScopedVariable threads("OPENBLAS_NUM_THREADS", "1");
    std::string tried;
    for (const std::string &path : candidates()) {
        void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            const char *reason = dlerror();
            tried += "\n  " + path + ": " + (reason != nullptr ? reason : "cannot be opened");
            continue;
        }
        const auto sgemm = reinterpret_cast<Sgemm>(dlsym(library, "scipy_cblas_sgemm"));
        const auto setThreads = reinterpret_cast<SetThreads>(dlsym(library, "scipy_openblas_set_num_threads"));
        if (sgemm == nullptr || setThreads == nullptr) {
            tried += "\n  " + path + ": has no scipy_cblas_sgemm or no scipy_openblas_set_num_threads";
            continue;  // left open: a library with threads of its own is not safely closed
        }
        setThreads(1);
        return {path, sgemm};
    }
    throw std::runtime_error("the simulator's kernels need the BLAS of the scipy-openblas32 wheel and did not find it. "
                             "Install scipy-openblas32 beside cann_mla, or name the library in CANN_MLA_SIM_BLAS. "
                             "Tried:" + tried);
}

const Blas &blas() {
    static const Blas instance = open();
    return instance;
}

}  // namespace

const std::string &blasPath() { return blas().path; }

void sgemm(size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c,
           size_t ldc, Transposed transposeA, Transposed transposeB) {
    if (m == 0 || n == 0) return;
    const auto flag = [](Transposed transposed) { return transposed == Transposed::Yes ? kTranspose : kNoTranspose; };
    blas().sgemm(kRowMajor, flag(transposeA), flag(transposeB), static_cast<int>(m), static_cast<int>(n),
                 static_cast<int>(k), 1.0F, a, static_cast<int>(lda), b, static_cast<int>(ldb), beta, c,
                 static_cast<int>(ldc));
}

}  // namespace sim::numeric
