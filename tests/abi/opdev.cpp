// C++ members that a program compiled against CANN's own opdev and ATB headers takes from the libraries: the classes are
// declared here as there, with nothing inline.
#include <cstdint>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "check.hpp"
#include "sim/cann_mla_sim.h"

namespace op {

struct tagFp16 {
    uint16_t val;
    tagFp16 &operator=(const float &value);
    tagFp16 &operator=(const double &value);
    tagFp16 &operator=(const int32_t &value);
    operator float() const;
};

}  // namespace op

namespace atb {

class Config {
   public:
    Config();
    ~Config();
    bool Is910B() const;

   private:
    char content_[256];
};

}  // namespace atb

struct Shape {
    size_t rank;
    int64_t dims[25];
    uint8_t reserved[40];
};

extern "C" const Shape &viewShape(const aclTensor *tensor) __asm__("_ZNK9aclTensor12GetViewShapeEv");

int main() {
    op::tagFp16 half{0};
    CHECK_EQ((half = 1).val, 0x3C00);
    CHECK_EQ((half = -0.5f).val, 0xB800);
    CHECK_EQ((half = 65504.0).val, 0x7BFF);
    CHECK_EQ(static_cast<float>(half), 65504.0f);
    CHECK_EQ(static_cast<float>(op::tagFp16{0x0001}), 5.9604644775390625e-8f);

    const int64_t dims[3] = {4, 1, 7};
    aclTensor *tensor = aclCreateTensor(dims, 3, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 3, nullptr);
    const Shape &shape = viewShape(tensor);
    CHECK_EQ(shape.rank, 3U);
    CHECK_EQ(shape.dims[0] * 100 + shape.dims[1] * 10 + shape.dims[2], 417);
    OK(aclDestroyTensor(tensor));

    OK(cannMlaSimSetSoc("Ascend910_93"));
    CHECK(atb::Config().Is910B());
    OK(cannMlaSimSetSoc("Ascend950"));
    CHECK(!atb::Config().Is910B());
    return 0;
}
