/* Everything of ATB's C++ interface. */
#ifndef CANN_MLA_ATB_ATB_INFER_H
#define CANN_MLA_ATB_ATB_INFER_H

#include "atb/context.h"
#include "atb/infer_op_params.h"
#include "atb/operation.h"
#include "atb/svector.h"
#include "atb/types.h"
#include "atb/utils.h"

#endif
