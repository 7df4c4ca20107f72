// dia/dia.cu for a matrix that stays in L2 from one product to the next: see include/dia.cuh.
#define KEPT
#include "../dia/dia.cu"
