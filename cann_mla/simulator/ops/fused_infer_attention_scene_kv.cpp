// Shared path: key and value as lists of one tensor a batch, and views that are not dense.
#include "ops/fused_infer_attention_scene_rules.hpp"

namespace sim::fia {

namespace {

struct ListAxes {
    size_t heads, seq, dim;
    bool hasHeads;
};

ListAxes listAxes(const std::string &layout) {
    if (layout == "BSH") return {0, 1, 2, false};
    if (oneOf(layout, {"BNSD", "BNSD_BSND", "BNSD_NBSD"})) return {1, 2, 3, true};
    return {2, 1, 3, true};
}

void checkListEntry(const Scene &s, size_t i, const ListAxes &axes) {
    const Shape &key = (*s.p.key)[i].shape, &value = (*s.p.value)[i].shape;
    const Shape &firstKey = s.p.key->front().shape, &firstValue = s.p.value->front().shape;
    if (axes.hasHeads) {
        require(axis(key, axes.heads) == s.n2 && axis(value, axes.heads) == s.n2, "key[", i, "] has shape ", key,
                " and value[", i, "] ", value, "; N must be ", s.n2);
    }
    require(axis(key, axes.dim) == axis(firstKey, axes.dim), "key[", i, "] has shape ", key, " and key[0] ", firstKey,
            "; axis ", axes.dim, " must be equal");
    require(axis(value, axes.dim) == axis(firstValue, axes.dim), "value[", i, "] has shape ", value, " and value[0] ",
            firstValue, "; axis ", axes.dim, " must be equal");
    require(axis(key, axes.seq) == axis(value, axes.seq), "key[", i, "] has shape ", key, " and value[", i, "] ", value,
            "; S must be equal");
    if (s.p.keyRope) {
        const Shape &rope = s.p.keyRope->shape;
        require(axis(key, axes.seq) == axis(rope, axes.seq), "key[", i, "] has shape ", key, " and keyRope ", rope,
                "; S must be equal");
    }
}

bool listIsEmpty(const Scene &s) {
    for (size_t i = 0; i < s.p.key->size(); ++i) {
        if (elements((*s.p.key)[i].shape) != 0 || elements((*s.p.value)[i].shape) != 0) return false;
    }
    return true;
}

// axesFree: how many leading axes may have any stride.
void requireDense(const char *name, const Tensor &t, int axesFree) {
    require(firstStridedAxis(t) < axesFree, name, " has shape ", t.shape, " with strides ", t.strides,
            "; on Ascend950 it is read where it lies, and ",
            axesFree == 0   ? "must be dense"
            : axesFree == 1 ? "only axis 0 may be strided"
                            : "only axes 0 and 1 may be strided");
}

}  // namespace

void checkTensorList(const Scene &s) {
    if (s.storage != Storage::List) return;
    size_t count = s.p.key->size();
    require(!s.p.blockTable, "blockTableOptional is given together with lists of ", count,
            " tensors; a paged cache is one tensor");
    require(!s.tokensFirst(s.qLayout), "key and value are lists of ", count, " tensors; layout ", s.layout,
            " takes one tensor each");
    if (listIsEmpty(s)) return;
    require(!s.p.keyRope || axis(s.p.keyRope->shape, 0) == static_cast<int64_t>(count), "keyRope has shape ",
            s.p.keyRope ? s.p.keyRope->shape : Shape{}, "; axis 0 must be the number of key tensors, ", count);
    for (size_t i = 0; i < count; ++i) checkListEntry(s, i, listAxes(s.layout));
    require(s.b == static_cast<int64_t>(count), "key is a list of ", count, " tensors; B of query is ", s.b,
            ", and they must be equal");
}

int firstStridedAxis(const Tensor &t) {
    if (t.strides.empty() || t.shape.size() < 2) return -1;
    int64_t dense = 1;
    for (int i = static_cast<int>(t.shape.size()) - 1; i >= 0; --i) {
        if (t.shape[i] == 1) continue;
        if (t.strides[i] != dense) return i;
        if (__builtin_mul_overflow(dense, t.shape[i], &dense)) dense = INT64_MAX;  // nobody holds such a tensor
    }
    return -1;
}

void checkStrides(const Scene &s) {
    if (s.a2() || s.quant != Quant::None || s.storage == Storage::List) return;
    int axesFree = s.storage != Storage::Paged ? 0 : s.kvLayout == Layout::BnBsH ? 1 : 2;
    requireDense("key", s.p.key->front(), axesFree);
    requireDense("value", s.p.value->front(), axesFree);
}

}  // namespace sim::fia
