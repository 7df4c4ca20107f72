// dia/pieces.cu for a matrix of which L2 keeps a part from one product to the next: see include/dia.cuh.
#define PARTLY_KEPT
#include "../dia/pieces.cu"
