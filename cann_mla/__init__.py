"""CANN's aclnn and ATB operators from Python: on Ascend, or on a simulator of the same C ABI."""
